//! Drives a real browser with the few WebDriver requests that these tests need.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than anything takes on any machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The key of an element reference in WebDriver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The kind of browser: device, colour scheme, and whether scripts run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) is_phone: bool,
    pub(crate) is_dark: bool,
    pub(crate) has_script: bool,
}

pub(crate) const DESK: Kind = Kind { is_phone: false, is_dark: false, has_script: true };

/// A browser. Dropping the value ends it.
pub(crate) struct Browser {
    driver: Child,
    client: reqwest::Client,
    base: String,
    _profile: TempDir,
}

/// An element of the page. It is looked up again for each action, because a page that refreshes
/// itself may have replaced it.
pub(crate) struct Element<'a> {
    browser: &'a Browser,
    using: &'static str,
    value: String,
}

impl Browser {
    pub(crate) async fn start(kind: Kind) -> Browser {
        let (driver, port) = start_driver();
        let profile = TempDir::new().unwrap();
        let client = runners::http_client().no_proxy().build().unwrap();
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

    /// Waits until the browser has fully loaded this address. A click returns before the page it
    /// leads to is loaded.
    pub(crate) async fn arrives(&self, address: &str) {
        let look = async {
            loop {
                // Between two pages, the browser has no page to run the script in.
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

    /// Runs a script and returns its value.
    pub(crate) async fn script(&self, text: &str) -> Value {
        let asked = json!({ "script": text, "args": [] });
        self.ask("/execute/sync", asked)
            .await
            .unwrap_or_else(|error| panic!("{text:.200}: {error}"))
    }

    /// Runs an asynchronous script and returns the value that it passes to its last argument.
    pub(crate) async fn script_later(&self, text: &str) -> Value {
        let asked = json!({ "script": text, "args": [] });
        self.ask("/execute/async", asked).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits for the element.
    pub(crate) async fn find(&self, css: &str) -> Element<'_> {
        self.found("css selector", css).await
    }

    /// Waits for a button or link with this text.
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

    /// All text of the page.
    pub(crate) async fn text(&self) -> String {
        let asked = json!({ "script": "return document.body.innerText", "args": [] });
        let text = self.ask("/execute/sync", asked).await.unwrap_or_default();
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page contains the text.
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

    /// Acts on the element as soon as possible. An element that a refresh has just replaced cannot
    /// be used for a moment.
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

/// The driver does not end its browser, so both are killed with their process group.
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
    // The remaining output is read and discarded, so that the driver never blocks on a full pipe.
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
