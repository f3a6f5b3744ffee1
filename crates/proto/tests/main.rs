//! The integration tests of this crate, in one program.

#[path = "common/answers.rs"]
mod answers;
#[path = "common/any_answer.rs"]
mod any_answer;
mod any_bytes;
#[path = "common/any_memcached.rs"]
mod any_memcached;
#[path = "common/any_request.rs"]
mod any_request;
#[path = "common/any_response.rs"]
mod any_response;
mod http_response;
mod http_response_tolerated;
#[path = "memcached/answers.rs"]
mod memcached_answers;
#[path = "memcached/both_sides.rs"]
mod memcached_both_sides;
#[path = "memcached/control.rs"]
mod memcached_control;
#[path = "memcached/full.rs"]
mod memcached_full;
#[path = "memcached/map.rs"]
mod memcached_map;
#[path = "memcached/meta.rs"]
mod memcached_meta;
#[path = "memcached/server.rs"]
mod memcached_server;
