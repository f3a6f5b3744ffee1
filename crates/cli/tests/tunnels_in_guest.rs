//! The kernel of a guest agrees on tunnels: a stack behind a bridge, without tunnels of its own, and one with the kernel's exchange
//! echoes through what the bridge takes out and puts in.

use corelane_guest::boot;
use corelane_tests::guest_with_tunnels;

/// Two namespaces, joined by a veth pair. The far one has the kernel's tunnel, the near one a bridge between its end of the pair
/// and a tap, whose stack knows of no tunnel. It has the address of that end, since a packet without Ethernet keeps the outer
/// one's. In each tunnel, of number N, the near end is 10.N.0.1 and fd00:N::1.
const SCRIPT: &str = r#"
ip() { /bin/ip "$@"; } # not busybox's
set -e
mkdir -p /run
ip netns add far
far() { ip -n far "$@"; }
near_mac=02:00:00:00:00:01 far_mac=02:00:00:00:00:02
ip link add veth0 address $near_mac type veth peer name veth1 address $far_mac netns far
echo 1 > /proc/sys/net/ipv6/conf/veth0/disable_ipv6
ip link set veth0 up; far link set veth1 up; far link set lo up
far address add 192.0.2.2/24 dev veth1; far address add 2001:db8::2/64 dev veth1 nodad
for outer in 192.0.2.1 2001:db8::1; do far neigh replace $outer lladdr $near_mac dev veth1; done

number=0
# NAME, the inner addresses, what the far end is made with, and what is put into the tunnel; nothing for one that is only left.
tunnel() {
  number=$((number + 1)); local name=$1 made=$2 inner=$3 into=$4
  far link add name t$number type $made
  far link set t$number up
  case $inner in
    4) near=10.$number.0.1 there=10.$number.0.2 bits=24 ;;
    6) near=fd00:$number::1 there=fd00:$number::2 bits=64 ;;
  esac
  nodad=; [ $inner = 4 ] || nodad=nodad
  far address add $there/$bits dev t$number $nodad
  corelane bridge --link packet:veth0 --link tap:inner0 --decapsulate=link=0 $into --duration 60s > /tmp/bridge 2>&1 &
  until ip link show inner0 > /tmp/shown 2>&1; do kill -0 $! || { cat /tmp/bridge; exit 1; }; sleep 0.1; done
  ip link set inner0 address $near_mac up
  ip address add $near/$bits dev inner0 $nodad
  case $made in *vxlan*|*geneve*|*gretap*) ;; *) ip neigh replace $there lladdr $far_mac dev inner0 ;; esac
  if [ -n "$into" ]; then
    ping -c 3 -W 20 $there > /tmp/ping || { echo "$name: no answer"; cat /tmp/ping; }
  else
    # The answers stay outside: only what came out of the tunnel is counted.
    ip netns exec far ping -c 3 -W 1 $near > /tmp/ping || grep -q "3 packets transmitted" /tmp/ping || cat /tmp/ping
  fi
  kill -INT $!; wait $! || true
  for stage in decapsulate encapsulate; do
    grep -q "^$stage: .*[1-9]" /tmp/bridge && took=yes || took=no
    echo "$name, $stage: $took"
  done
  grep -E "(checksum|ttl|ecn|not_readable|gre_version|gre_protocol|geneve_[a-z]*) " /tmp/bridge || true
  far link delete t$number
}
four="local 192.0.2.2 remote 192.0.2.1" six="local 2001:db8::2 remote 2001:db8::1"
to_four="local=192.0.2.1,remote=192.0.2.2,link=1" to_six="local=2001:db8::1,remote=2001:db8::2,link=1"
macs="destination_mac=$far_mac"
tunnel gre "gre $four" 4 "--encapsulate gre,$to_four"
tunnel "gre with key, sequence and checksum" "gre $four key 7 oseq ocsum" 4 "--encapsulate gre,key=7,$to_four"
tunnel "gre in IPv6" "ip6gre $six" 6 "--encapsulate gre,$to_six"
tunnel ipip "ipip $four" 4 "--encapsulate ipip,$to_four"
tunnel sit "sit $four" 6 "--encapsulate ipip,$to_four"
tunnel "IP in IPv6" "ip6tnl mode any $six" 4 "--encapsulate ipip,$to_six"
tunnel vxlan "vxlan id 7 $four dstport 4789" 4 "--encapsulate vxlan,vni=7,$macs,$to_four"
tunnel "vxlan in IPv6" "vxlan id 8 $six dstport 4789" 6 "--encapsulate vxlan,vni=8,$macs,$to_six"
tunnel gretap "gretap $four key 7 oseq ocsum" 4 ""
tunnel geneve "geneve id 7 remote 192.0.2.1" 4 ""
tunnel "geneve in IPv6" "geneve id 8 remote 2001:db8::1" 6 ""
"#;

#[test]
fn a_stack_behind_a_bridge_and_the_kernels_tunnels_understand_each_other() {
    let Some((mut plan, parts)) = guest_with_tunnels(SCRIPT) else {
        return;
    };
    plan.programs.push(env!("CARGO_BIN_EXE_corelane").into());
    let guest = boot(&plan, &parts).unwrap_or_else(|error| panic!("{error}"));
    let both_ways = [
        "gre",
        "gre with key, sequence and checksum",
        "gre in IPv6",
        "ipip",
        "sit",
        "IP in IPv6",
        "vxlan",
        "vxlan in IPv6",
    ];
    let one_way = ["gretap", "geneve", "geneve in IPv6"];
    let rows = both_ways.map(|name| (name, "yes"));
    let rows = rows.into_iter().chain(one_way.map(|name| (name, "no")));
    let expected = rows.flat_map(|(name, into)| {
        [
            format!("{name}, decapsulate: yes"),
            format!("{name}, encapsulate: {into}"),
        ]
    });
    let lines: Vec<&str> = guest.output.lines().collect();
    assert_eq!(lines, expected.collect::<Vec<_>>(), "{}", guest.output);
    assert_eq!(guest.status, 0);
}
