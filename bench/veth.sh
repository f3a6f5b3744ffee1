# Sourced by the benchmarks: two unnamed network namespaces joined by a veth pair, and helpers for measurements in them.
#
# Needs root, or a kernel that permits user namespaces; `unshare`, `nsenter` (util-linux) and `ip` (iproute2). Defines
# the functions `server COMMAND …` and `client COMMAND …`, which run a command in either namespace; the server has
# 10.11.2.1, the client 10.11.2.2. A process holds each namespace and ends with the script, however the script ends.
# Nothing has a name, and nothing remains.

# Without privilege the whole script runs in a user namespace of its own.
if [[ $EUID -ne 0 ]]; then
  exec unshare --user --map-root-user -- "$BASH" "$0" "$@"
fi

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need unshare nsenter setpriv ip ss

# Each holder reads a pipe to which only this script has the write end, so the holder ends with the script.
exec {server_pipe}> >(exec unshare --net -- cat)
server_holder=$!
exec {client_pipe}> >(exec unshare --net -- cat)
client_holder=$!

server() { nsenter --net="/proc/$server_holder/ns/net" -- "$@" {server_pipe}>&- {client_pipe}>&-; }
client() { nsenter --net="/proc/$client_holder/ns/net" -- "$@" {server_pipe}>&- {client_pipe}>&-; }

# Starts a command in the server's namespace; $! is the process id of the command itself, so signals reach it. It ends
# with the script, however the script ends.
server_in_background() {
  (exec setpriv --pdeathsig TERM nsenter --net="/proc/$server_holder/ns/net" -- "$@" {server_pipe}>&- {client_pipe}>&- >/dev/null) &
}

# Whether a port of the server is in use.
holds_udp() { [[ -n $(server ss --no-header --all --udp --numeric "sport = :$1") ]]; }
server_listens_tcp() { [[ -n $(server ss --no-header --listening --tcp --numeric "sport = :$1") ]]; }

apart() { [[ $(readlink "/proc/$1/ns/net") != "$(readlink /proc/$$/ns/net)" ]]; }

until_done apart "$server_holder" && until_done apart "$client_holder" || {
  echo "skipped: network namespaces are not permitted here" >&2
  exit 77
}
server ip link add veth0 type veth peer name veth1 netns "/proc/$client_holder/ns/net"
server ip addr add 10.11.2.1/24 dev veth0
client ip addr add 10.11.2.2/24 dev veth1
for side in server client; do
  "$side" ip link set lo up
done
server ip link set veth0 up
client ip link set veth1 up
