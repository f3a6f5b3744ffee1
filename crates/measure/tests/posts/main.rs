//! The posts' own figures pass through unchanged.

mod netstat;

use corelane_measure::drops::{UdpAccount, UdpDrops, UdpNotes};
use proptest::prelude::*;

/// "More RSS UDP tests - this time on a Dell R720", the output of `netstat -sp udp`.
const POST: &str = "\
udp:
        6773040390 datagrams received
        0 with incomplete header
        0 with bad data length field
        0 with bad checksum
        0 with no checksum
        17450880 dropped due to no socket
        136 broadcast/multicast datagrams undelivered
        1634117674 dropped due to full socket buffers
        0 not for hashed pcb
        5121471700 delivered
        5121471044 datagrams output
        0 times multicast source filter matched
";

#[test]
fn the_posts_figures_pass_through_the_drop_accounting_unchanged() {
    let account = netstat::parse(POST).unwrap();
    assert_eq!(account.received, 6_773_040_390);
    assert_eq!(account.drops.no_socket, 17_450_880);
    assert_eq!(account.drops.broadcast, 136);
    assert_eq!(account.drops.full_buffers, 1_634_117_674);
    assert_eq!(account.delivered, 5_121_471_700);
    assert_eq!(account.drops.total(), 17_450_880 + 136 + 1_634_117_674);
    assert_eq!(account.received, account.delivered + account.drops.total());
    assert_eq!(netstat::render(&account), POST);
}

#[test]
fn the_account_survives_a_document() {
    let account = netstat::parse(POST).unwrap();
    let document = serde_json::to_string(&account).unwrap();
    let back: UdpAccount = serde_json::from_str(&document).unwrap();
    assert_eq!(netstat::render(&back), POST);
}

proptest! {
    #[test]
    fn an_account_survives_its_own_text(
        received in any::<u64>(), delivered in any::<u64>(), drops in proptest::array::uniform8(any::<u64>()),
        notes in proptest::array::uniform4(any::<u64>()),
    ) {
        let [bad_header, bad_length, bad_checksum, no_socket, broadcast, full_buffers, memory, other_errors] = drops;
        let [no_checksum, not_for_hashed_pcb, output, multicast_filter_matched] = notes;
        let account = UdpAccount {
            received,
            delivered,
            drops: UdpDrops {
                bad_header, bad_length, bad_checksum, no_socket, broadcast, full_buffers, memory, other_errors,
            },
            notes: UdpNotes { no_checksum, not_for_hashed_pcb, output, multicast_filter_matched },
        };
        prop_assert_eq!(netstat::parse(&netstat::render(&account)), Ok(account));
    }

    #[test]
    fn no_text_panics(text in "(udp:\n)?([ \t]{0,3}[0-9]{0,22} \\PC{0,20}\n){0,5}") {
        let _ = netstat::parse(&text);
    }
}
