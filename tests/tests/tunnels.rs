//! The kernel of guests makes tunnels of every kind, so that tests can compare ours with its own.

#![forbid(unsafe_code)]

use corelane_guest::boot;
use corelane_tests::guest_with_tunnels;

/// Two namespaces, joined by a veth pair. In each tunnel, of number N, the near end is 10.N.0.1 and fd00:N::1. `sit` has no
/// IPv4 inside unless it is asked for, and `ipip` no IPv6 at all. ESP in tunnel mode has no device: a policy demands it
/// between two more addresses of loopback.
const SCRIPT: &str = r#"
ip() { /bin/ip "$@"; } # not busybox's
set -e
mkdir -p /run
ip netns add far
far() { ip -n far "$@"; }
ip link add veth0 type veth peer name veth1 netns far
ip link set veth0 up; far link set veth1 up; far link set lo up
ip address add 192.0.2.1/24 dev veth0; far address add 192.0.2.2/24 dev veth1
ip address add 2001:db8::1/64 dev veth0 nodad; far address add 2001:db8::2/64 dev veth1 nodad

number=0
report() { if ping -c 1 -W 5 "$2" >/tmp/ping; then echo "$1"; else echo "$1: no answer"; cat /tmp/ping; fi; }
# NAME, the inner families, and what both ends are made with: LOCAL and REMOTE stand for the outer addresses.
tunnel() {
  name=$1 inner=$2; shift 2
  number=$((number + 1)); local made="type $*"
  four=${made#*four }; [ "$four" = "$made" ] && outer=2001:db8:: || outer=192.0.2.
  made=$(echo "$made" | sed 's/ four / /')
  ip link add name t$number $(echo "$made" | sed "s/LOCAL/${outer}1/; s/REMOTE/${outer}2/")
  far link add name t$number $(echo "$made" | sed "s/LOCAL/${outer}2/; s/REMOTE/${outer}1/")
  ip link set t$number up; far link set t$number up
  case $inner in *4*)
    ip address add 10.$number.0.1/24 dev t$number; far address add 10.$number.0.2/24 dev t$number
    report "$name of IPv4" 10.$number.0.2 ;; esac
  case $inner in *6*)
    ip address add fd00:$number::1/64 dev t$number nodad; far address add fd00:$number::2/64 dev t$number nodad
    report "$name of IPv6" fd00:$number::2 ;; esac
}
tunnel gre 46 gre four local LOCAL remote REMOTE
tunnel "gre with key, sequence and checksum" 4 gre four local LOCAL remote REMOTE key 7 seq csum
tunnel gretap 46 gretap four local LOCAL remote REMOTE
tunnel "gre in IPv6" 46 ip6gre local LOCAL remote REMOTE
tunnel ipip 4 ipip four local LOCAL remote REMOTE
tunnel sit 6 sit four local LOCAL remote REMOTE
tunnel "IP in IPv6" 46 ip6tnl mode any local LOCAL remote REMOTE
tunnel vxlan 46 vxlan four id 7 local LOCAL remote REMOTE dstport 4789
tunnel "vxlan in IPv6" 46 vxlan id 8 local LOCAL remote REMOTE dstport 4789
tunnel geneve 46 geneve four id 7 remote REMOTE
tunnel "geneve in IPv6" 46 geneve id 8 remote REMOTE

key=0x000102030405060708090a0b0c0d0e0f10111213
# NAME, outer and inner addresses, the prefix of the latter, and what else the associations have.
esp() {
  name=$1 near=$2 far=$3 inside=$4 outside=$5 prefix=$6; shift 6
  ip address add $inside/$prefix dev lo; far address add $outside/$prefix dev lo
  ip route add $outside/$prefix via $far dev veth0 src $inside
  far route add $inside/$prefix via $near dev veth1 src $outside
  for end in ip far; do
    $end xfrm state add src $near dst $far proto esp spi 0x100 mode tunnel "$@" aead 'rfc4106(gcm(aes))' $key 128
    $end xfrm state add src $far dst $near proto esp spi 0x200 mode tunnel "$@" aead 'rfc4106(gcm(aes))' $key 128
  done
  for way in "ip out far in" "ip in far out"; do
    set -- $way
    [ $2 = out ] && from="$inside $near" to="$outside $far" || from="$outside $far" to="$inside $near"
    policy="src ${from% *} dst ${to% *}" template="src ${from#* } dst ${to#* } proto esp mode tunnel"
    $1 xfrm policy add $policy dir $2 tmpl $template
    $3 xfrm policy add $policy dir $4 tmpl $template
  done
  report "$name" $outside
}
esp "esp of IPv4" 192.0.2.1 192.0.2.2 10.90.0.1 10.90.0.2 32
esp "esp in IPv6, with extended sequence numbers" 2001:db8::1 2001:db8::2 fd00:90::1 fd00:90::2 128 replay-window 64 flag esn
echo "$(ip -s xfrm state | grep -c '[1-9][0-9]*(packets)') associations were used"
"#;

#[test]
fn the_guests_kernel_has_every_tunnel_and_esp() {
    let Some((plan, parts)) = guest_with_tunnels(SCRIPT) else {
        return;
    };
    let guest = boot(&plan, &parts).unwrap_or_else(|error| panic!("{error}"));
    let expected = [
        "gre of IPv4",
        "gre of IPv6",
        "gre with key, sequence and checksum of IPv4",
        "gretap of IPv4",
        "gretap of IPv6",
        "gre in IPv6 of IPv4",
        "gre in IPv6 of IPv6",
        "ipip of IPv4",
        "sit of IPv6",
        "IP in IPv6 of IPv4",
        "IP in IPv6 of IPv6",
        "vxlan of IPv4",
        "vxlan of IPv6",
        "vxlan in IPv6 of IPv4",
        "vxlan in IPv6 of IPv6",
        "geneve of IPv4",
        "geneve of IPv6",
        "geneve in IPv6 of IPv4",
        "geneve in IPv6 of IPv6",
        "esp of IPv4",
        "esp in IPv6, with extended sequence numbers",
        "4 associations were used",
    ];
    assert_eq!(
        guest.output.lines().collect::<Vec<_>>(),
        expected,
        "{}",
        guest.output
    );
    assert_eq!(guest.status, 0);
}
