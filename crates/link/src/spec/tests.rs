//! Specifications that are read, and those that are refused.

use super::*;

#[test]
fn options_are_read_by_kind() {
    let read = |text: &str| {
        text.parse::<LinkSpec>()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    let xdp = read("xdp:eth0,queues=4,mode=copy,hook=generic,wakeup=always,stride=2048");
    assert_eq!(
        (xdp.kind, xdp.name.as_str(), xdp.queues),
        (LinkKind::Xdp, "eth0", Some(4))
    );
    let options = XdpOptions {
        mode: XdpMode::Copy,
        hook: XdpHook::Generic,
        need_wakeup: false,
    };
    assert_eq!((xdp.xdp, xdp.layout.stride()), (options, 2048));
    assert_eq!(read("packet:eth1,fanout=queue").fanout, Fanout::Queue);
    assert_eq!(read("ring:left,frames=256").layout.frames(), 256);
    assert_eq!(read("ring:left,queues=3").queues, Some(3));
    let files = |text: &str| {
        let spec = read(text);
        let shown = |file: Option<PathBuf>| file.map(|file| file.display().to_string());
        (shown(spec.read), shown(spec.write))
    };
    let named = |read: &str, write: &str| (Some(read.to_owned()), Some(write.to_owned()));
    assert_eq!(files("pcap:in.pcap"), (Some("in.pcap".to_owned()), None));
    assert_eq!(
        files("pcap:out=out.pcapng"),
        (None, Some("out.pcapng".to_owned()))
    );
    assert_eq!(
        files("pcap:in=a=b.pcap,out=c=d.pcap"),
        named("a=b.pcap", "c=d.pcap")
    );
    assert_eq!(files("pcap:a,out=b"), named("a", "b"));
    assert_eq!(read("tap:t0").faults, None);
    assert_eq!(read("tap:t0,drop=0").faults.unwrap().drop, 0.0);
    let plan = FaultPlan {
        seed: 7,
        direction: FrameDirection::Sent,
        drop: 0.01,
        delayed: 0.5,
        delay: Duration::from_millis(10),
        ..FaultPlan::default()
    };
    let text = "tap:t0,seed=7,drop=1%,delay=0.01s,delayed=50%,faults=sent,capture=seen=b.pcapng";
    assert_eq!(read(text).faults, Some(plan));
    assert_eq!(read(text).capture.unwrap(), Path::new("seen=b.pcapng"));
    assert_eq!(read("tap:t0,delay=1500us").faults.unwrap().delayed, 1.0);
}

#[test]
fn a_link_that_does_not_take_merged_frames_says_why() {
    let opened = |text: &str| {
        let spec: LinkSpec = text.parse().unwrap();
        assert!(!spec.merged);
        spec.for_merged().map(|spec| assert!(spec.merged))
    };
    for text in [
        "packet:eth0",
        "tap:t0",
        "pcap:out=a.pcap",
        "ring:r,frames=16,stride=65600",
    ] {
        opened(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let refusal = |text: &str| opened(text).unwrap_err().to_string();
    assert_eq!(
        refusal("xdp:eth0"),
        "xdp:eth0 does not take frames of merged segments: AF_XDP sends frames up to the device's MTU"
    );
    let short = "give it a stride of 65664 at least";
    assert!(refusal("ring:r,stride=65600,headroom=64").ends_with(short));
    assert!(opened("ring:r,frames=16,stride=65664,headroom=64").is_ok());
}

#[test]
fn a_wrong_specification_is_refused_by_what_is_wrong_in_it() {
    let refusal = |text: &str| text.parse::<LinkSpec>().unwrap_err().to_string();
    for text in ["eth0", "wifi:eth0", "xdp:", "pcap:", "tap:queues=2"] {
        assert!(
            refusal(text).contains("names no link"),
            "{text}: {}",
            refusal(text)
        );
    }
    assert!(refusal("tap:t0,mode=copy").contains("'mode' is no option of a tap link"));
    assert!(refusal("xdp:eth0,mode=fast").contains("give auto, copy or zerocopy"));
    assert!(refusal("packet:eth0,queues=0").contains("from 1 to 256"));
    assert!(refusal("pcap:a.pcap,out=").contains("'out=': give the name of a file"));
    assert!(refusal("tap:t0,stride=100").contains("a multiple of 64"));
    for (text, expected) in [
        (
            "tap:t0,drop=2",
            "'drop=2': give a share of frames such as 1% or 0.01",
        ),
        ("tap:t0,reorder=", "'reorder=': give a share"),
        (
            "tap:t0,delay=5",
            "'delay=5': give a time above 0, 10s at most, such as 5ms",
        ),
        ("tap:t0,delay=11s", "10s at most"),
        ("tap:t0,delay=0ms", "a time above 0"),
        (
            "tap:t0,delayed=1%",
            "'delayed=1%': give the time as well, such as delay=5ms",
        ),
        ("tap:t0,seed=7", "'seed=7': give a fault as well, such as drop=1%"),
        ("tap:t0,faults=sent", "'faults=sent': give a fault as well"),
        (
            "tap:t0,drop=1%,faults=both",
            "'faults=both': give received or sent",
        ),
        ("tap:t0,drop=1%,seed=-1", "'seed=-1': give a whole number"),
        ("tap:t0,capture=", "'capture=': give the name of a file"),
        (
            "pcap:a,out=b,capture=b",
            "'capture=b': give a file that no link reads or writes already",
        ),
        (
            "pcap:a.1.pcap,capture=./a.pcap",
            "'capture=./a.pcap': give a file that no link reads or writes already",
        ),
        (
            "tap:t0,lose=1%",
            "'lose' is no option of a tap link, which has queues, frames,",
        ),
    ] {
        assert!(refusal(text).contains(expected), "{text}: {}", refusal(text));
    }
}
