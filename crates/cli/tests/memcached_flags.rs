//! The flags of memcached, as unit files, scripts and Debian's /etc/memcached.conf have them.

use crate::common::{self, Server, corelane, refused, run, run_json};
use corelane_tests::until;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

/// The plan of `serve memcached` with these flags.
fn plan(flags: &str) -> Value {
    run_json(&format!("serve memcached -t 1 {flags} --dry-run"))
}

/// Flags, and what they put where into the plan.
const ACCEPTED: [(&str, &str, &str); 33] = [
    ("-p11311", "/address", r#""127.0.0.1:11311""#),
    ("--port=11311 -p 11312", "/address", r#""127.0.0.1:11312""#),
    ("-U 11313", "/udp", r#"["127.0.0.1:11313"]"#),
    ("-U 11313", "/address", r#""127.0.0.1:11313""#),
    ("-U 11313 -p 11211", "/address", r#""127.0.0.1:11211""#),
    ("-l 127.0.0.1 -l ::1", "/more_addresses", r#"["[::1]:11211"]"#),
    (
        "-l 127.0.0.1,[::1]:11212;127.0.0.2",
        "/more_addresses",
        r#"["[::1]:11212", "127.0.0.2:11211"]"#,
    ),
    ("-l [::1]:11212 -U 5", "/udp", r#"["[::1]:11212"]"#),
    (
        "-p 5 -l 127.0.0.1 -l 127.0.0.1 -l ::1",
        "/more_addresses",
        r#"["[::1]:5"]"#,
    ),
    ("-l *", "/address", r#""[::]:11211""#),
    (
        "-s /tmp/no.sock -l ::1",
        "/unix",
        r#"{"path": "/tmp/no.sock", "mode": 448}"#,
    ),
    ("-s /tmp/no.sock -a 0770", "/unix/mode", r#"504"#),
    ("-m 100", "/memory_bytes", r#"104857600"#),
    ("-c 77", "/connections", r#"77"#),
    ("-I 2m", "/largest_item", r#"2097152"#),
    ("-I 512K", "/largest_item", r#"524288"#),
    ("-I 100000", "/largest_item", r#"100000"#),
    ("-b 100000", "/backlog", r#"65535"#),
    ("-vvv", "/verbosity", r#"3"#),
    ("-v --verbose", "/verbosity", r#"2"#),
    ("-F", "/behaviour/no_flush", r#"true"#),
    ("-X", "/behaviour/no_dump", r#"true"#),
    ("-W", "/behaviour/no_watch", r#"true"#),
    ("-A", "/behaviour/shutdown", r#"true"#),
    ("-C", "/behaviour/no_cas", r#"true"#),
    ("-M", "/behaviour/no_evictions", r#"true"#),
    ("-o track_sizes", "/behaviour/track_sizes", r#"true"#),
    ("-D/", "/behaviour/prefix_delimiter", r#""/""#),
    ("-o idle_timeout=30,modern", "/behaviour/idle_timeout", r#"30"#),
    (
        "-o idle_timeout=30 -o idle_timeout=0",
        "/behaviour/idle_timeout",
        r#"null"#,
    ),
    ("-o no_lru_crawler", "/behaviour/no_crawler", r#"true"#),
    (
        "-o no_lru_crawler,lru_crawler",
        "/behaviour/no_crawler",
        r#"false"#,
    ),
    (
        "-dkrL -R 100 -f 1.1 -n 10 -B auto -u nobody -P /tmp/no.pid",
        "/connections",
        r#"1024"#,
    ),
];

#[test]
fn flags_mean_what_they_mean_to_memcached() {
    for (flags, place, expected) in ACCEPTED {
        let expected: Value = serde_json::from_str(expected).unwrap();
        let plan = plan(flags);
        let found = plan.pointer(place).cloned().unwrap_or_default();
        assert_eq!(found, expected, "{flags}: {place} of {plan}");
    }
}

#[test]
fn there_are_no_more_workers_than_the_memory_has_room_for() {
    let plan = run_json("serve memcached -m 3 --dry-run");
    assert_eq!(plan["steering"]["cpus"].as_array().map(Vec::len), Some(1));
    let named = run("serve memcached -m 3 --dry-run -v").stderr;
    assert_eq!(
        String::from_utf8_lossy(&named),
        "corelane: 1 workers, as many as the memory (-m) has room for\n"
    );
}

#[test]
fn more_threads_than_cpus_share_them() {
    let plan = run_json("serve memcached -t 64 -m 1024 --dry-run");
    let cpus = plan.pointer("/steering/cpus").and_then(Value::as_array).unwrap();
    assert_eq!(cpus.len(), 64, "{plan}");
}

/// Flags that are refused, and what the error names.
const REFUSED: [(&str, &str, &str); 36] = [
    ("-S", "--enable-sasl", "use --tls"),
    ("-Y file", "--auth-file", "use a Unix socket"),
    ("-Z", "--enable-ssl", "use --tls, with --certificate"),
    ("-e file", "--memory-file", "leave it out"),
    ("-N 2", "--napi-ids", "use --dev"),
    ("-i", "--license", "LICENSE-MIT"),
    ("-B binary", "--protocol", "text or the meta protocol"),
    ("-B other", "--protocol", "give ascii or auto"),
    ("-l notls:127.0.0.1", "--listen", "start another server"),
    ("-l btls:127.0.0.1", "--listen", "give --tls"),
    (
        "-l mtls:127.0.0.1",
        "--listen",
        "clients are not asked for certificates",
    ),
    ("-l proto[ascii]:127.0.0.1", "--listen", "leave the prefix out"),
    ("-l tag_a_:127.0.0.1", "--listen", "leave the prefix out"),
    ("-l 127.0.0.1:x", "--listen", "write 127.0.0.1"),
    ("-o ssl_chain_cert=a", "--extended", "use --tls --certificate"),
    ("-o ssl_key=a", "--extended", "use --tls --private-key"),
    ("-o ssl_ca_cert=a", "--extended", "clients are not asked"),
    ("-o ext_path=a:1G", "--extended", "all items are in memory"),
    ("-o proxy_config=a", "--extended", "there is no proxy"),
    ("-o drop_privileges", "--extended", "systemd unit"),
    ("-o sock_cookie_id=1", "--extended", "filter by address"),
    (
        "-o nonsense",
        "--extended",
        "nonsense: memcached 1.6.45 has no such option",
    ),
    ("-o idle_timeout", "--extended", "idle_timeout: give a number"),
    ("-o hashpower=x", "--extended", "hashpower: give a number"),
    ("-o hash_algorithm=", "--extended", "hash_algorithm: give a value"),
    ("-c 0", "--conn-limit", "0 is not in"),
    ("-R 0", "--max-reqs-per-event", "0 is not in"),
    ("-f 1", "--slab-growth-factor", "greater than 1"),
    ("-n 0", "--slab-min-size", "0 is not in"),
    ("-D ab", "--prefix-delimiter", "give one character"),
    ("-I 1023", "--max-item-size", "give 1k to 1024m"),
    ("-I 1025m", "--max-item-size", "give 1k to 1024m"),
    ("-p 0", "--port", "nothing to listen on"),
    ("-d --json", "--daemon", "--json=FILE"),
    ("-c 4000000000", "--conn-limit", "need as many descriptors"),
    (
        "--memcached-conf /nowhere/file",
        "--memcached-conf",
        "/nowhere/file",
    ),
];

#[test]
fn what_does_not_exist_here_is_refused_with_what_to_use_instead() {
    for (flags, flag, instead) in REFUSED {
        let error = refused(&format!("serve memcached -t 1 {flags}"), 2);
        assert!(
            error.contains(flag) && error.contains(instead),
            "{flags}: {error}"
        );
    }
    for (flags, code, message) in [
        ("-I 40m", 2, "--max-item-size"),
        ("-m 1 -I 1k", 2, "--memory-limit"),
        (
            "-m 64 -t 33",
            2,
            "64 MiB for 33 workers, of which each needs 2 at least: give 66, or 32 workers",
        ),
        ("-s /nowhere/socket", 2, "--unix-socket: /nowhere/socket: "),
        ("-l 192.0.2.1", 2, "--listen: no device has the address"),
        ("-l host.invalid", 2, "--listen: host.invalid: "),
    ] {
        let error = refused(&format!("serve memcached -t 1 -l 127.0.0.1:0 {flags}"), code);
        assert!(error.contains(message), "{flags}: {error}");
    }
}

/// memcached's words of -o that tune what does not exist here.
const WITHOUT_EFFECT: [&str; 28] = [
    "no_maxconns_fast",
    "hashpower=20",
    "no_hashexpand",
    "slab_reassign",
    "no_slab_reassign",
    "slab_automove",
    "slab_automove=2",
    "no_slab_automove",
    "slab_automove_ratio=0.8",
    "slab_automove_window=30",
    "slab_automove_freeratio=0.01",
    "slab_sizes=100-200",
    "slab_chunk_max=512",
    "no_chunked_items",
    "tail_repair_time=10",
    "hash_algorithm=xxh3",
    "lru_crawler_sleep=100",
    "lru_crawler_tocrawl=0",
    "lru_maintainer",
    "no_lru_maintainer",
    "hot_lru_pct=20",
    "warm_lru_pct=40",
    "hot_max_factor=0.2",
    "warm_max_factor=2.0",
    "temporary_ttl=61",
    "watcher_logbuf_size=256",
    "worker_logbuf_size=64",
    "read_buf_mem_limit=0",
];

#[test]
fn flags_without_effect_are_accepted_and_named_with_v() {
    let words = WITHOUT_EFFECT.join(",");
    let flags = format!(
        "serve memcached -t 1 -R 20 -f 1.25 -n 48 -L -o maxconns_fast,no_drop_privileges,{words} --dry-run"
    );
    let silent = run(&flags);
    assert!(silent.status.success() && silent.stderr.is_empty(), "{silent:?}");
    let output = run(&format!("{flags} -v"));
    let named = String::from_utf8(output.stderr).unwrap();
    assert_eq!(named.lines().count(), 4 + WITHOUT_EFFECT.len(), "{named}");
    for word in WITHOUT_EFFECT {
        let name = word.split('=').next().unwrap();
        assert!(
            named.contains(&format!("-o {name} has no effect: ")),
            "{name}: {named}"
        );
    }
}

#[test]
fn shutdown_ends_the_server_if_that_is_allowed() {
    for (flags, ends) in [("", false), ("-A", true)] {
        let mut command = corelane(&format!("serve memcached -l 127.0.0.1:0 -t 1 {flags}"));
        let mut server = Server::of(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut client = TcpStream::connect(&server.address).unwrap();
        client.write_all(b"shutdown\r\nversion\r\n").unwrap();
        if ends {
            assert!(server.wait().success());
        } else {
            let mut line = String::new();
            BufReader::new(client).read_line(&mut line).unwrap();
            assert_eq!(line, "SERVER_ERROR: shutdown not enabled\r\n");
        }
    }
}

#[test]
fn the_documentation_lists_the_options() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/MEMCACHED.md");
    let page = fs::read_to_string(page).unwrap();
    let refused = REFUSED.iter().filter_map(|(flags, ..)| flags.strip_prefix("-o "));
    let known = refused.filter(|word| !word.starts_with("nonsense"));
    for word in known.chain(WITHOUT_EFFECT) {
        let name = word.split('=').next().unwrap();
        let whole = format!("`{name}`");
        let family = format!("`{}…`", &name[..=name.find('_').unwrap_or(0)]);
        let with_value = format!("`{name}=");
        let listed = [whole, family, with_value].iter().any(|form| page.contains(form));
        assert!(listed, "{name}");
    }
}

/// A file as Debian installs it.
const CONF: &str = "# memcached default config file\n\
    -d\n\
    logfile /var/log/memcached.log\n\
    # -vv\n\
    \n\
    -m 96   # MiB\n\
    -p 11311\n\
    -u memcache\n\
    -l 127.0.0.1\n\
    -l ::1\n\
    # -c 1024\n\
    -P /var/run/memcached/memcached.pid\n";

#[test]
fn the_file_of_debian_is_read_and_flags_after_it_win() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memcached.conf");
    fs::write(&file, CONF).unwrap();
    let conf = format!("--memcached-conf {}", file.display());
    let read = plan(&format!("-m 10 {conf} -c 50"));
    assert_eq!(read["address"], "127.0.0.1:11311");
    assert_eq!(read["more_addresses"], json!(["[::1]:11311"]));
    assert_eq!(
        (&read["memory_bytes"], &read["connections"]),
        (&json!(96 << 20), &json!(50))
    );
    let other = plan(&format!("{} -l 127.0.0.2 -m 100", conf.replace(' ', "=")));
    assert_eq!(other["address"], "127.0.0.2:11311");
    assert_eq!(other.get("more_addresses"), None);
    assert_eq!(other["memory_bytes"], json!(100 << 20));
}

/// The answer to a line.
fn answer(address: &str, request: &str) -> String {
    let mut connection = TcpStream::connect(address).expect("the server accepts");
    connection.write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(connection).read_line(&mut line).unwrap();
    line
}

fn state_of(process: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{process}/status")).ok()
}

/// Starts a server in the background: its address and its process.
fn background(flags: &str, pid_file: &Path) -> (String, String) {
    let output = run(&format!(
        "serve memcached -t 1 -l 127.0.0.1:0 -d -P {} {flags} --duration 60s",
        pid_file.display()
    ));
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let address = printed
        .strip_prefix("listening on ")
        .and_then(|rest| rest.split(',').next());
    let process = fs::read_to_string(pid_file)
        .expect("the file is there")
        .trim()
        .to_owned();
    (address.expect(&printed).to_owned(), process)
}

#[test]
fn a_server_in_the_background_listens_when_its_starter_has_ended() {
    let folder = common::folder_for_anyone();
    let file = folder.path().join("memcached.pid");
    let (address, process) = background("", &file);
    assert!(answer(&address, "version\r\n").starts_with("VERSION 1.6"));
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let (session, terminal) = (fields[3], fields[4]);
    assert_eq!((session, terminal), (&*process, "0"), "{stat}");
    let number = process.parse().unwrap();
    // Signals of a terminal that has gone do not end it.
    common::signal(number, "HUP");
    assert!(answer(&address, "version\r\n").starts_with("VERSION 1.6"));
    common::signal(number, "TERM");
    until("the server ends", || !file.exists());
}

#[test]
fn a_server_that_cannot_start_in_the_background_says_why() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let output = run(&format!("serve memcached -t 1 -l {address} -d"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains(&address.to_string()),
        "{output:?}"
    );
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn root_becomes_the_user_with_the_sockets_open() {
    if !nix::unistd::Uid::effective().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let error = refused("serve memcached -t 1 -l 127.0.0.1:0 -u no-such-user", 2);
    assert!(error.contains("there is no user 'no-such-user'"), "{error}");
    let folder = common::folder_for_anyone();
    let nobody = nix::unistd::User::from_name("nobody")
        .unwrap()
        .expect("there is nobody");
    std::os::unix::fs::chown(folder.path(), Some(nobody.uid.as_raw()), None).unwrap();
    let file = folder.path().join("memcached.pid");
    let (address, process) = background("-u nobody -r", &file);
    let status = state_of(&process).unwrap();
    for (name, id) in [("Uid:", nobody.uid.as_raw()), ("Gid:", nobody.gid.as_raw())] {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let ids: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert_eq!(ids, [id; 4], "{status}");
    }
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    assert_eq!(groups.map(str::trim), Some(""), "{status}");
    assert!(answer(&address, "version\r\n").starts_with("VERSION"));
    common::signal(process.parse().unwrap(), "TERM");
    until("the server ends", || !file.exists());
}

#[test]
fn the_version_is_that_of_this_program() {
    let output = run("serve memcached -V");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
    let taken = corelane("serve memcached -h").output().unwrap();
    assert!(taken.status.success());
}
