//! The integration tests of this crate, in one program.

mod align_by;
mod any_address;
mod bridge;
mod bridge_buckets;
mod bridge_config;
mod bridge_stages;
mod cache;
mod captures;
mod causes;
mod checksums;
mod classify;
mod common;
mod control_group;
mod diff;
mod documentation;
mod earlier_kernel;
mod engines;
mod examples;
mod explain;
mod flow_plan;
mod gates;
mod golden;
mod hash_and_plan;
mod help;
mod host;
#[allow(dead_code, reason = "a module of the command, with its tests")]
#[path = "../src/host/text.rs"]
mod host_text;
mod http_addresses;
mod http_answers;
mod http_closing;
mod http_ends;
mod http_load;
mod http_lost;
mod http_targets;
mod infer;
mod inputs;
mod installed;
#[allow(dead_code, reason = "a module of the command, for live")]
#[path = "../src/interrupt.rs"]
mod interrupt;
mod interrupted;
mod key;
mod kill;
mod limits;
mod locked_memory;
#[allow(dead_code, reason = "modules of the command, with their tests")]
#[path = "../src/load"]
mod load {
    mod live;
}
mod load_conditions;
mod load_diff;
mod load_https;
mod load_outputs;
mod many_connections;
mod memcached;
mod memcached_flags;
mod memcached_load;
mod memcached_memory;
mod memcached_owners;
mod memcached_stalled;
mod memory;
mod merging;
mod metrics;
mod nic;
mod observe;
mod other_machine;
mod outputs;
mod overwriting;
mod packets;
mod partial;
mod path;
#[allow(dead_code, reason = "its tests are those of the program")]
#[path = "../src/progress.rs"]
mod progress;
mod prometheus;
mod quick;
#[path = "common/raw_http.rs"]
mod raw_http;
mod rebalance;
mod replay_oversized;
mod rss;
mod scale;
mod scale_http;
mod scale_memcached;
mod scale_tcp;
#[path = "common/scrape.rs"]
mod scrape;
mod serve_device;
mod serve_http;
#[path = "../src/settings.rs"]
mod settings;
mod simulate;
#[path = "../src/standard.rs"]
#[allow(dead_code, reason = "a module of the command, for live and progress")]
mod standard;
mod steer;
mod stopped;
#[path = "common/stream_server.rs"]
mod stream_server;
mod subject;
mod surprises;
mod table;
mod tcp_load;
mod tcp_tls;
#[path = "../src/terminal.rs"]
mod terminal;
mod timeline;
mod timeline_conditions;
mod tunnels_in_guest;
mod udp;
mod unix_socket;
mod unwritable;
mod verify;
mod write_steering;
mod wrong_files;
mod zones;
