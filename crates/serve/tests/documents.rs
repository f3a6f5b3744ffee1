//! Plans and counts in the form that other processes and later runs read.

use crate::common::{anywhere, steering};
use corelane_serve::Server;
use corelane_serve::http::{HttpPlan, HttpServed, HttpServer};
use corelane_serve::tcp::{TcpMode, TcpPlan, TcpServed, TcpServer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The serialized value; asserts that it is the same after it was parsed and serialized again.
fn written<T: Serialize + DeserializeOwned>(value: &T) -> Value {
    let text = serde_json::to_string(value).unwrap();
    let again: T = serde_json::from_str(&text).unwrap();
    let through_value: T = serde_json::from_value(serde_json::to_value(value).unwrap()).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    assert_eq!(serde_json::to_string(&through_value).unwrap(), text);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn plans_and_counts_of_connections_are_flat_and_read_back() {
    let plan = HttpPlan::new(anywhere(), steering(2));
    let fields = written(&plan);
    assert_eq!(
        (&fields["backlog"], &fields["tls"]),
        (&json!(4_096), &Value::Null)
    );
    let mut server = HttpServer::start(plan).unwrap();
    let address = server.address();
    crate::common::exchange(address, b"GET /status/404 HTTP/1.0\r\n\r\n");
    let mut served: HttpServed = server.served();
    served.buckets[0].answers.insert(404, 1);
    let fields = written(&served);
    assert_eq!(fields["schema"], "corelane/served-http/1");
    assert_eq!(fields["buckets"][0]["answers"]["404"], 1);
    assert_eq!(fields["buckets"][1]["bucket"], 1);
    assert!(fields["buckets"][0]["broken"].is_object() && fields.get("access_log").is_none());

    let plan = TcpPlan::new(anywhere(), TcpMode::Echo, steering(1));
    assert_eq!(written(&plan)["mode"], "echo");
    let served: TcpServed = TcpServer::start(plan).unwrap().stop().unwrap();
    let fields = written(&served);
    assert_eq!(
        (&fields["mode"], &fields["buckets"][0]["open"]),
        (&json!("echo"), &json!(0))
    );
}
