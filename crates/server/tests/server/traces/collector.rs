//! A real trace collector on loopback, which decodes spans with the published OTLP types.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::harness::PATIENCE;

/// How often the collector is checked for spans.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A collector, and what it has received.
pub(crate) struct Collector {
    pub(crate) port: u16,
    arrived: Arc<Mutex<Arrived>>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Arrived {
    requests: usize,
    headers: Option<HeaderMap>,
    resources: Vec<ResourceSpans>,
}

impl Collector {
    pub(crate) async fn start() -> Collector {
        Collector::answering(&[]).await
    }

    /// Answers with these statuses first, and accepts no spans meanwhile.
    pub(crate) async fn answering(first: &[u16]) -> Collector {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let arrived: Arc<Mutex<Arrived>> = Arc::default();
        let (kept, first) = (arrived.clone(), Mutex::new(VecDeque::from(first.to_vec())));
        let first = Arc::new(first);
        let answer = move |uri: Uri, headers: HeaderMap, body: Bytes| async move {
            assert_eq!(uri.path(), "/v1/traces");
            let mut kept = kept.lock().unwrap();
            kept.requests += 1;
            if let Some(status) = first.lock().unwrap().pop_front() {
                return StatusCode::from_u16(status).unwrap();
            }
            kept.resources.extend(ExportTraceServiceRequest::decode(body).unwrap().resource_spans);
            kept.headers = Some(headers);
            StatusCode::OK
        };
        let router = Router::new().fallback(answer);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Collector { port, arrived, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// How many requests it has received.
    pub(crate) fn requests(&self) -> usize {
        self.arrived.lock().unwrap().requests
    }

    pub(crate) fn header(&self, name: &str) -> String {
        let arrived = self.arrived.lock().unwrap();
        arrived.headers.as_ref().unwrap()[name].to_str().unwrap().to_owned()
    }

    /// An attribute of the node's resource.
    pub(crate) fn resource(&self, key: &str) -> Option<String> {
        let arrived = self.arrived.lock().unwrap();
        let resource = arrived.resources[0].resource.clone().unwrap();
        resource.attributes.iter().find(|a| a.key == key).and_then(|a| text(a.value.clone()?.value))
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let arrived = self.arrived.lock().unwrap();
        let scopes = arrived.resources.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// All spans, once `count` have arrived.
    pub(crate) async fn until(&self, count: usize) -> Vec<Span> {
        let arrived = async {
            while self.spans().len() < count {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, arrived).await;
        assert!(waited.is_ok(), "only {:?}", self.spans());
        self.spans()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn text(value: Option<Value>) -> Option<String> {
    match value? {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

/// An attribute of a span.
pub(crate) fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    text(found.value.clone()?.value)
}

/// The only span with this name.
#[track_caller]
pub(crate) fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no {name} in {spans:?}"));
    assert!(found.next().is_none(), "several {name} in {spans:?}");
    span
}
