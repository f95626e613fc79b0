//! The outside world: an HTTP server that notes every request before it answers.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::history::Hit;
use crate::steps::wall_millis;

/// Requests of limited workflows take so long, so that their runs meet at the limit.
const SLOW: Duration = Duration::from_millis(250);
/// A mutation's answer takes so long, so that nodes are killed between the deed and its answer.
const MUTATION: Duration = Duration::from_millis(30);

/// A running sink. It outlives every node.
#[derive(Clone)]
pub(super) struct Sink {
    pub(super) port: u16,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    hits: Vec<Hit>,
    /// How often each key was seen.
    seen: HashMap<String, u32>,
}

impl Sink {
    pub(super) fn start() -> Result<Sink, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|why| format!("a sink: {why}"))?;
        let port = listener.local_addr().map_err(|why| format!("a sink: {why}"))?.port();
        let sink = Sink { port, log: Arc::default() };
        let own = sink.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sink = own.clone();
                std::thread::spawn(move || sink.serve(stream));
            }
        });
        Ok(sink)
    }

    /// All requests so far, in the order of their arrival.
    pub(super) fn hits(&self) -> Vec<Hit> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).hits.clone()
    }

    /// Whether a request with this key has arrived.
    pub(super) fn has(&self, key: &str) -> bool {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).seen.contains_key(key)
    }

    /// Answers what comes on one connection until the other side is gone.
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(request) = read_request(&mut reader) {
            let (number, status) = self.note(&request);
            std::thread::sleep(match request.path.split('/').nth(1) {
                Some("limited-a" | "limited-b") => SLOW,
                Some("orders") => MUTATION,
                _ => Duration::ZERO,
            });
            self.log.lock().unwrap_or_else(PoisonError::into_inner).hits[number].done =
                wall_millis();
            let answer = format!("HTTP/1.1 {status} -\r\ncontent-length: 2\r\n\r\n{{}}");
            if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    /// Notes a request: its number, and with which status it is answered.
    fn note(&self, request: &Request) -> (usize, u16) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = log.seen.entry(request.key.clone()).or_default();
        *seen += 1;
        let status = match request.path.split('/').nth(1) {
            Some("flaky") if *seen == 1 => 503,
            Some("failing") => 500,
            _ => 200,
        };
        let at = wall_millis();
        log.hits.push(Hit {
            at,
            done: at,
            method: request.method.clone(),
            path: request.path.clone(),
            key: request.key.clone(),
            body: request.body.clone(),
            status,
        });
        (log.hits.len() - 1, status)
    }
}

struct Request {
    method: String,
    path: String,
    key: String,
    body: String,
}

/// The next request; nothing when the other side is gone.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let Some((name, value)) = line.split_once(':') else { break };
        match &*name.to_ascii_lowercase() {
            "idempotency-key" => value.trim().clone_into(&mut key),
            "content-length" => length = value.trim().parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8_lossy(&body).into_owned();
    Some(Request { method, path, key, body })
}
