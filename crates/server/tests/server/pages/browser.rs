//! A browser without scripts: it keeps its cookie, and sends forms as the pages made them.

use reqwest::Method;
use reqwest::redirect::Policy;

use crate::harness::{Node, Reply, send};

/// A text that must never appear on a page unescaped.
pub(crate) const HOSTILE: &str = "<script>alert(1)</script>";

/// The largest size of a page, in bytes.
const HEAVIEST: usize = 150_000;

/// A visitor to the pages of an open node.
pub(crate) struct Browser<'n> {
    node: &'n Node,
    client: reqwest::Client,
    cookie: String,
    key: String,
}

impl<'n> Browser<'n> {
    /// Opens a page with a form, and keeps its cookie and key.
    pub(crate) async fn open(node: &'n Node) -> Browser<'n> {
        let client = runners::http_client().redirect(Policy::none()).build().unwrap();
        let reply = send(client.get(node.url("/workflows/new"))).await;
        let cookie = reply.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let (_, rest) = reply.text.split_once("name=\"_key\" value=\"").unwrap();
        let key = rest.split('"').next().unwrap().to_owned();
        Browser { node, client, cookie, key }
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, self.node.url(path));
        request.header("accept", "text/html").header("cookie", &self.cookie)
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        send(self.request(Method::GET, path)).await
    }

    /// Insists that the page exists and passes [`check`], and returns it.
    pub(crate) async fn page(&self, path: &str) -> String {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        check(path, &reply);
        reply.text
    }

    /// Sends a form.
    pub(crate) async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.append_pair("_key", &self.key).extend_pairs(fields);
        let kind = ("content-type", "application/x-www-form-urlencoded");
        send(self.request(Method::POST, path).header(kind.0, kind.1).body(body.finish())).await
    }

    /// Sends a form, insists that it is accepted, and returns where it redirects to.
    pub(crate) async fn done(&self, path: &str, fields: &[(&str, &str)]) -> String {
        let reply = self.submit(path, fields).await;
        assert_eq!(reply.status, 303, "{path}: {}", reply.text);
        reply.header("location").unwrap().to_owned()
    }
}

/// What must hold for every page.
pub(crate) fn check(path: &str, reply: &Reply) {
    let text = &reply.text;
    assert!(reply.header("content-type").unwrap().starts_with("text/html"), "{path}");
    assert!(!text.contains(HOSTILE), "{path}: not escaped");
    assert_eq!(text.matches("<h1").count(), 1, "{path}: {text}");
    assert!(
        !text.contains(" style=") && !text.contains(" onclick="),
        "{path}: the policy forbids it"
    );
    assert!(text.len() < HEAVIEST, "{path}: {} bytes", text.len());
    let mut ids: Vec<&str> =
        text.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    ids.sort_unstable();
    let twice = ids.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "{path}: an id is there twice");
}
