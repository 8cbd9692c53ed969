//! A real browser without a window, driven through the two pipes that it has for that.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// How long the browser may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a browser is started until the page stands.
const STARTS: usize = 3;
/// The file, in the folder of a page, for what the browser complains of.
const COMPLAINTS: &str = "complaints.txt";
/// The names under which it may be installed.
const NAMES: [&str; 5] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A page in a browser of its own.
pub struct Page {
    browser: Child,
    orders: ChildStdin,
    told: Receiver<Value>,
    /// What it has told that was no answer.
    events: Vec<Value>,
    session: Option<String>,
    asked: u64,
    folder: PathBuf,
    url: String,
}

impl Page {
    /// Opens a page, in a window of this size; the browser prefers light or dark.
    ///
    /// A browser that ends before the page stands is started again: that it starts is not what is tested here.
    pub fn open(html: &str, size: (u32, u32), scheme: &str) -> Self {
        let mut failures = Vec::new();
        while failures.len() < STARTS {
            let mut page = Self::launch(html);
            match page.load(size, scheme) {
                Ok(()) => return page,
                Err(failure) => failures.push(failure),
            }
        }
        panic!("the browser was started {STARTS} times:\n{}", failures.join("\n"));
    }

    fn launch(html: &str) -> Self {
        static PAGES: AtomicU32 = AtomicU32::new(0);
        let number = PAGES.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("redouble-page-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("report.html");
        std::fs::write(&file, html).expect("a file");
        let (mut browser, told) = start(&folder);
        let orders = browser.stdin.take().expect("its orders");
        let url = format!("file://{}", file.display());
        Self { browser, orders, told, events: Vec::new(), session: None, asked: 0, folder, url }
    }

    fn load(&mut self, (width, height): (u32, u32), scheme: &str) -> Result<(), String> {
        let target = self.order("Target.createTarget", json!({ "url": "about:blank" }))?["targetId"].clone();
        let attached = self.order("Target.attachToTarget", json!({ "targetId": target, "flatten": true }))?;
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.order(&format!("{domain}.enable"), json!({}))?;
        }
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.order("Emulation.setDeviceMetricsOverride", size)?;
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.order("Emulation.setEmulatedMedia", json!({ "features": features }))?;
        self.order("Page.navigate", json!({ "url": self.url }))?;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.hear()?;
            self.events.push(event);
        }
        Ok(())
    }

    /// What an expression of the page comes to; a promise is waited for.
    #[track_caller]
    pub fn ask(&mut self, expression: &str) -> Value {
        let question = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", question);
        assert!(answer["exceptionDetails"].is_null(), "{expression}\n{}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    #[track_caller]
    pub fn number(&mut self, expression: &str) -> f64 {
        let answer = self.ask(expression);
        answer.as_f64().unwrap_or_else(|| panic!("{expression} is {answer}"))
    }

    #[track_caller]
    pub fn text(&mut self, expression: &str) -> String {
        let answer = self.ask(expression);
        answer.as_str().unwrap_or_else(|| panic!("{expression} is {answer}")).to_owned()
    }

    /// Waits until what was changed is drawn.
    pub fn settle(&mut self) {
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))");
    }

    /// Presses and releases a key, wherever the focus is.
    pub fn press(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        let kind = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "text": text }));
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
        self.settle();
    }

    /// Clicks at a place in the window.
    pub fn click(&mut self, x: f64, y: f64) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
        self.settle();
    }

    /// Turns the wheel at a place in the window.
    pub fn turn(&mut self, x: f64, y: f64, by: f64) {
        let event = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": by });
        self.call("Input.dispatchMouseEvent", event);
        self.settle();
    }

    /// The page as it is now, as a PNG file's bytes; kept in the folder REDOUBLE_PICTURES if there is one, to look at.
    pub fn picture(&mut self, name: &str) -> usize {
        self.settle();
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let picture = picture["data"].as_str().expect("a picture").to_owned();
        if let Some(folder) = std::env::var_os("REDOUBLE_PICTURES") {
            let path = PathBuf::from(folder).join(format!("{name}.png.base64"));
            std::fs::write(&path, &picture).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        picture.len() / 4 * 3
    }

    /// Fails if the page has complained of anything, or has asked anybody for anything but itself.
    #[track_caller]
    pub fn assert_quiet(&mut self) {
        self.settle();
        for event in &self.events {
            let method = event["method"].as_str().unwrap_or_default();
            let is_complaint =
                matches!(method, "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded");
            assert!(!is_complaint, "the page says: {event}");
            if method == "Network.requestWillBeSent" {
                let asked = event["params"]["request"]["url"].as_str().unwrap_or_default();
                assert_eq!(asked, self.url, "a request");
            }
        }
    }

    #[track_caller]
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.order(method, parameters).unwrap_or_else(|failure| panic!("{failure}"))
    }

    fn order(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        self.asked += 1;
        let mut order = json!({ "id": self.asked, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        let mut bytes = order.to_string().into_bytes();
        bytes.push(0);
        if let Err(error) = self.orders.write_all(&bytes) {
            return Err(self.failure(&format!("takes no orders: {error}")));
        }
        loop {
            let mut answer = self.hear()?;
            if answer["id"] == self.asked {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return Ok(answer["result"].take());
            }
            self.events.push(answer);
        }
    }

    fn hear(&mut self) -> Result<Value, String> {
        self.told.recv_timeout(PATIENCE).map_err(|error| self.failure(&format!("says nothing: {error}")))
    }

    /// What became of the browser, and the last that it complained of.
    fn failure(&mut self, what: &str) -> String {
        let end = self.browser.try_wait();
        let complaints = std::fs::read(self.folder.join(COMPLAINTS)).unwrap_or_default();
        let complaints = String::from_utf8_lossy(&complaints);
        let last: Vec<&str> = complaints.lines().rev().take(10).collect();
        format!("the browser {what}; its end: {end:?}; its complaints, last first:\n{}", last.join("\n"))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Its helpers too: they would write to the folder again when it has been removed.
        let _ = kill_process_group(Pid::from_child(&self.browser), Signal::KILL);
        let _ = self.browser.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Starts the browser; what it tells comes message by message.
fn start(folder: &std::path::Path) -> (Child, Receiver<Value>) {
    let named = std::env::var("REDOUBLE_CHROMIUM").ok();
    let name = named.or_else(|| NAMES.into_iter().find(|name| is_there(name)).map(str::to_owned)).unwrap_or_else(|| {
        panic!(
            "there is no Chromium, and these tests look at the report's page in one. `make test` installs it; on Debian \
             `apt-get install chromium-headless-shell`. Another one can be named in REDOUBLE_CHROMIUM. Names tried: {}",
            NAMES.join(", ")
        )
    });
    let complaints = std::fs::File::create(folder.join(COMPLAINTS)).expect("a file for its complaints");
    // It takes orders from its third further file and answers to its fourth.
    let mut browser = Command::new("sh")
        .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null", &name])
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"])
        .args(["--disable-dev-shm-usage", "--disable-extensions", "--remote-debugging-pipe"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg("about:blank")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(complaints)
        .spawn()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut answers = BufReader::new(browser.stdout.take().expect("its answers"));
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut message = Vec::new();
        while answers.read_until(0, &mut message).is_ok_and(|length| length > 0) {
            message.pop();
            let Ok(value) = serde_json::from_slice(&message) else { break };
            message.clear();
            if tell.send(value).is_err() {
                break;
            }
        }
    });
    (browser, told)
}

fn is_there(name: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}
