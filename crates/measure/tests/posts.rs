//! The posts' own figures pass through unchanged.

use corelane_measure::drops::UdpAccount;

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
    let account = UdpAccount::parse(POST).unwrap();
    assert_eq!(account.received, 6_773_040_390);
    assert_eq!(account.drops.no_socket, 17_450_880);
    assert_eq!(account.drops.broadcast, 136);
    assert_eq!(account.drops.full_buffers, 1_634_117_674);
    assert_eq!(account.delivered, 5_121_471_700);
    assert_eq!(account.drops.total(), 17_450_880 + 136 + 1_634_117_674);
    assert_eq!(account.unaccounted(), 0);
    assert_eq!(account.render(), POST);
}

#[test]
fn the_account_survives_a_document() {
    let account = UdpAccount::parse(POST).unwrap();
    let document = serde_json::to_string(&account).unwrap();
    let back: UdpAccount = serde_json::from_str(&document).unwrap();
    assert_eq!(back.render(), POST);
}
