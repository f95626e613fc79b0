//! A real browser, driven by the few requests of WebDriver that these tests need.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Nothing takes so long on any machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// What WebDriver calls a reference to an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How the browser is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) is_phone: bool,
    pub(crate) is_dark: bool,
    pub(crate) has_script: bool,
}

pub(crate) const DESK: Kind = Kind { is_phone: false, is_dark: false, has_script: true };

/// A browser, gone with this value.
pub(crate) struct Browser {
    driver: Child,
    client: reqwest::Client,
    base: String,
    _profile: TempDir,
}

/// An element of the page. It is looked for again whenever something is done with it: a page that refreshes itself may
/// have put another one in its place.
pub(crate) struct Element<'a> {
    browser: &'a Browser,
    using: &'static str,
    value: String,
}

impl Browser {
    pub(crate) async fn start(kind: Kind) -> Browser {
        let (driver, port) = start_driver();
        let profile = TempDir::new().unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let root = format!("http://127.0.0.1:{port}");
        let reply = client.post(format!("{root}/session")).json(&wanted(kind, &profile)).send();
        let reply: Value = reply.await.unwrap().json().await.unwrap();
        let id = reply["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("{reply}"));
        let base = format!("{root}/session/{id}");
        Browser { driver, client, base, _profile: profile }
    }

    async fn ask(&self, path: &str, body: Value) -> Result<Value, Value> {
        let request = match body {
            Value::Null => self.client.get(format!("{}{path}", self.base)),
            body => self.client.post(format!("{}{path}", self.base)).json(&body),
        };
        let reply = request.send().await.unwrap();
        let is_well = reply.status().is_success();
        let value = reply.json::<Value>().await.unwrap()["value"].take();
        if is_well { Ok(value) } else { Err(value) }
    }

    pub(crate) async fn open(&self, address: &str) {
        self.ask("/url", json!({ "url": address })).await.unwrap();
    }

    /// Waits until the browser is at this address and has all of it: pressing something returns before the page that it
    /// leads to is there.
    pub(crate) async fn arrives(&self, address: &str) {
        let look = async {
            loop {
                // In between there is no page to ask.
                let asked = json!({
                    "script": "return [location.href, document.readyState]", "args": [],
                });
                let found = self.ask("/execute/sync", asked).await.unwrap_or_default();
                if found[0] == address && found[1] == "complete" {
                    return;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(PATIENCE, look).await.is_err() {
            panic!("{} is not {address}:\n{}", self.address().await, self.text().await);
        }
    }

    pub(crate) async fn address(&self) -> String {
        self.ask("/url", Value::Null).await.unwrap().as_str().unwrap().to_owned()
    }

    /// What the script returns.
    pub(crate) async fn script(&self, text: &str) -> Value {
        let asked = json!({ "script": text, "args": [] });
        self.ask("/execute/sync", asked)
            .await
            .unwrap_or_else(|error| panic!("{text:.200}: {error}"))
    }

    /// What the script gives to its last argument.
    pub(crate) async fn script_later(&self, text: &str) -> Value {
        let asked = json!({ "script": text, "args": [] });
        self.ask("/execute/async", asked).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The element, as soon as there is one.
    pub(crate) async fn find(&self, css: &str) -> Element<'_> {
        self.found("css selector", css).await
    }

    /// A button or link with this text.
    pub(crate) async fn pressable(&self, text: &str) -> Element<'_> {
        let xpath = format!(
            "//*[self::button or self::a or self::summary][contains(normalize-space(.), \"{text}\")]"
        );
        self.found("xpath", &xpath).await
    }

    async fn found(&self, using: &'static str, value: &str) -> Element<'_> {
        let element = Element { browser: self, using, value: value.to_owned() };
        let look = async {
            while element.id().await.is_none() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(PATIENCE, look).await.is_err() {
            panic!("no {value} on {}:\n{}", self.address().await, self.text().await);
        }
        element
    }

    /// All that can be read on the page.
    pub(crate) async fn text(&self) -> String {
        let asked = json!({ "script": "return document.body.innerText", "args": [] });
        let text = self.ask("/execute/sync", asked).await.unwrap_or_default();
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page says so.
    pub(crate) async fn says(&self, words: &str) {
        let look = async {
            while !self.text().await.contains(words) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(PATIENCE, look).await.is_err() {
            panic!("{} does not say {words:?}:\n{}", self.address().await, self.text().await);
        }
    }
}

impl Element<'_> {
    async fn id(&self) -> Option<String> {
        let asked = json!({ "using": self.using, "value": self.value });
        let found = self.browser.ask("/element", asked).await.ok()?;
        found[ELEMENT].as_str().map(str::to_owned)
    }

    pub(crate) async fn press(&self) {
        self.on("/click", json!({})).await;
    }

    pub(crate) async fn write(&self, text: &str) {
        self.on("/clear", json!({})).await;
        self.on("/value", json!({ "text": text })).await;
    }

    /// Does something with it as soon as that can be done: what a refresh has just put in its place cannot be touched
    /// for a moment.
    async fn on(&self, path: &str, body: Value) {
        let mut last = Value::Null;
        let act = async {
            loop {
                if let Some(id) = self.id().await {
                    match self.browser.ask(&format!("/element/{id}{path}"), body.clone()).await {
                        Ok(_) => return,
                        Err(error) => last = error,
                    }
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let done = tokio::time::timeout(PATIENCE, act).await;
        assert!(done.is_ok(), "{path} of {}: {last}", self.value);
    }
}

/// The driver does not end its browser when it is ended: both go, with all that they have started.
impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.driver.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.driver.wait();
    }
}

fn start_driver() -> (Child, u16) {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("chromedriver is installed: apt-get install chromium chromium-driver");
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port = loop {
        let line = lines.next().expect("it says where it listens").unwrap();
        let port = line.rsplit_once("successfully on port ");
        if let Some((_, port)) = port {
            break port.trim_end_matches('.').parse().unwrap();
        }
    };
    // Nobody reads on, and nobody waits for somebody to read.
    std::thread::spawn(move || lines.count());
    (driver, port)
}

fn wanted(kind: Kind, profile: &TempDir) -> Value {
    let mut arguments = vec![
        "--headless=new".to_owned(),
        "--no-sandbox".to_owned(),
        "--disable-gpu".to_owned(),
        "--disable-quic".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        "--no-first-run".to_owned(),
        "--disable-background-networking".to_owned(),
        "--disable-component-update".to_owned(),
        "--disable-sync".to_owned(),
        "--disable-breakpad".to_owned(),
        "--disable-crash-reporter".to_owned(),
        "--window-size=1280,900".to_owned(),
        format!("--user-data-dir={}", profile.path().display()),
    ];
    if kind.is_dark {
        arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
    }
    let mut options = json!({ "args": arguments, "binary": "/usr/bin/chromium" });
    if kind.is_phone {
        let metrics = json!({ "width": 390, "height": 844, "pixelRatio": 2.0, "touch": true });
        options["mobileEmulation"] = json!({ "deviceMetrics": metrics });
    }
    if !kind.has_script {
        let setting = "profile.managed_default_content_settings.javascript";
        options["prefs"] = json!({ setting: 2 });
    }
    json!({ "capabilities": { "alwaysMatch": {
        "browserName": "chrome",
        "goog:chromeOptions": options,
        "timeouts": { "script": 60_000 },
    } } })
}
