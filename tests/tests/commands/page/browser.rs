//! A Chromium without a window, driven over its debugging pipe.
//!
//! Messages of the DevTools protocol go to and from the browser's file
//! descriptors 3 and 4, each ended by a zero byte. A shell puts them there from
//! standard input and output. When the pipe is closed, the browser ends.
//!
//! Starting one takes longer than most of a test's other steps, so tests that
//! run at the same time share one: each has a tab, with separate cookies and storage.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fxtrec_tests::process::spawn;
use serde_json::{Value, json};

/// How long the browser may take to answer on a very busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Makes standard input and output the debugging pipe.
const PLUMBING: &str = "exec chromium \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>&1";

/// Width and height of the visible area, in pixels.
pub(crate) const SIZE: (u32, u32) = (1440, 900);

/// The browser that tests share while one of them has a tab in it.
static SHARED: Mutex<Weak<Program>> = Mutex::new(Weak::new());

/// Data left by a panic of another test is valid: entries of maps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tab that an answer or an event is for.
#[derive(Default)]
struct Tabs {
    of_calls: HashMap<u64, Sender<Value>>,
    of_sessions: HashMap<String, Sender<Value>>,
}

impl Tabs {
    fn pass_on(&mut self, message: Value) {
        let tab = match message["id"].as_u64() {
            Some(id) => self.of_calls.remove(&id),
            None => {
                let session = message["sessionId"].as_str();
                session.and_then(|session| self.of_sessions.get(session)).cloned()
            }
        };
        // A closed tab does not need the message.
        let _ = tab.map(|tab| tab.send(message));
    }

    /// Wakes all threads that wait for an answer.
    fn end(&mut self) {
        for tab in self.of_calls.drain().map(|(_, tab)| tab) {
            let _ = tab.send(Value::Null);
        }
    }
}

/// The running browser.
struct Program {
    process: Mutex<Child>,
    to: Mutex<Option<ChildStdin>>,
    tabs: Arc<Mutex<Tabs>>,
    next: AtomicU64,
    _profile: tempfile::TempDir,
}

impl Program {
    fn start() -> Program {
        let profile = tempfile::tempdir().expect("a folder for temporary files");
        let size = format!("--window-size={},{}", SIZE.0, SIZE.1);
        let folder = format!("--user-data-dir={}", profile.path().display());
        let mut process = spawn(
            Command::new("sh")
                .args(["-c", PLUMBING, "sh", "--headless=new", "--remote-debugging-pipe"])
                .args([
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-dev-shm-usage",
                    "--no-first-run",
                ])
                .args(["--disable-background-networking", "--disable-component-update"])
                .args(["--disable-extensions", "--force-device-scale-factor=1"])
                // Otherwise only the newest tab draws, and timers of the others are slow.
                .args([
                    "--disable-backgrounding-occluded-windows",
                    "--disable-renderer-backgrounding",
                    "--disable-background-timer-throttling",
                ])
                .args([&size, &folder, "about:blank"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null()),
        );
        let tabs = Arc::<Mutex<Tabs>>::default();
        let (answers, to_tabs) = (process.stdout.take().expect("piped"), tabs.clone());
        std::thread::spawn(move || distribute(answers, &to_tabs));
        Program {
            to: Mutex::new(process.stdin.take()),
            process: Mutex::new(process),
            tabs,
            next: AtomicU64::new(1),
            _profile: profile,
        }
    }

    fn shared() -> Arc<Program> {
        let mut shared = lock(&SHARED);
        shared.upgrade().unwrap_or_else(|| {
            let program = Arc::new(Program::start());
            *shared = Arc::downgrade(&program);
            program
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        *lock(&self.to) = None;
        let _ = lock(&self.process).wait();
    }
}

/// Reads the browser's messages, until it ends.
fn distribute(answers: ChildStdout, tabs: &Mutex<Tabs>) {
    let mut answers = BufReader::new(answers);
    let mut message = Vec::new();
    while answers.read_until(0, &mut message).is_ok_and(|length| length > 0) {
        message.pop();
        // The message is truncated if the browser was killed.
        let Ok(value) = serde_json::from_slice(&message) else { break };
        lock(tabs).pass_on(value);
        message.clear();
    }
    lock(tabs).end();
}

/// A tab of the browser, empty at first. Closed when dropped.
pub(crate) struct Browser {
    program: Arc<Program>,
    to_me: Sender<Value>,
    from: Receiver<Value>,
    session: Option<String>,
    context: Value,
    events: VecDeque<Value>,
}

/// Whether a browser is installed; prints a message if not.
pub(crate) fn is_there() -> bool {
    fxtrec_tests::tools::or_skip(&["chromium"])
}

impl Browser {
    pub(crate) fn start() -> Browser {
        let (to_me, from) = channel();
        let mut browser = Browser {
            program: Program::shared(),
            to_me,
            from,
            session: None,
            context: Value::Null,
            events: VecDeque::new(),
        };
        let context = browser.call("Target.createBrowserContext", &json!({}));
        browser.context = context["browserContextId"].clone();
        let tab = json!({
            "url": "about:blank", "browserContextId": browser.context, "newWindow": true,
            "width": SIZE.0, "height": SIZE.1
        });
        let target = browser.call("Target.createTarget", &tab)["targetId"].clone();
        let attached =
            browser.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        let session = attached["sessionId"].as_str().expect("text").to_owned();
        let to_me = browser.to_me.clone();
        lock(&browser.program.tabs).of_sessions.insert(session.clone(), to_me);
        browser.session = Some(session);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser.call("Emulation.setFocusEmulationEnabled", &json!({ "enabled": true }));
        browser.resize(SIZE.0, SIZE.1);
        browser
    }

    /// Sets the size of the window.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let screen =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &screen);
    }

    /// Calls a method of the protocol, and returns its result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.program.next.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        lock(&self.program.tabs).of_calls.insert(id, self.to_me.clone());
        {
            let mut to = lock(&self.program.to);
            let to = to.as_mut().expect("open until it is dropped");
            to.write_all(&bytes).and_then(|()| to.flush()).expect("the browser listens");
        }
        loop {
            let answer = self
                .from
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|error| panic!("no answer to {method}: {error}"));
            assert!(!answer.is_null(), "no answer to {method}: the browser ended");
            if answer["id"] == json!(id) {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push_back(answer);
        }
    }

    /// Opens a file, and waits until the page reports that it is ready.
    pub(crate) fn open(&mut self, page: &Path) {
        self.open_at(page, "");
    }

    /// Opens a page again, with the given suffix in its address.
    pub(crate) fn open_at(&mut self, page: &Path, fragment: &str) {
        self.call("Page.navigate", &json!({ "url": "about:blank" }));
        let address = format!("file://{}{fragment}", page.display());
        let opened = self.call("Page.navigate", &json!({ "url": address }));
        assert!(opened["errorText"].is_null(), "{page:?}: {}", opened["errorText"]);
        self.wait_for("document.documentElement?.dataset.ready === 'true'");
        self.settle();
    }

    /// Waits until everything in view has been unpacked and drawn.
    pub(crate) fn settle(&mut self) {
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))",
        );
        self.wait_for("fxtrec.state().idle && fxtrec.state().paint.mode !== 'waiting'");
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))",
        );
    }

    /// Waits until an expression of the page is true.
    pub(crate) fn wait_for(&mut self, condition: &str) {
        let text = format!(
            "new Promise((done, failed) => {{
                const begin = Date.now();
                const look = () => {{
                    if ({condition}) done(true);
                    else if (Date.now() - begin > 120_000) failed('never: ' + {});
                    else setTimeout(look, 20);
                }};
                look();
            }})",
            json!(condition)
        );
        self.evaluate(&text);
    }

    /// The value of an expression; if it is a promise, the value of that.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", &params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// The page's own description.
    pub(crate) fn state(&mut self) -> Value {
        self.evaluate("fxtrec.state()")
    }

    /// Presses and releases a key: a letter, or the name of a key.
    pub(crate) fn press(&mut self, key: &str) {
        let mut down = json!({ "type": "keyDown", "key": key });
        match key {
            "Enter" => (down["text"], down["windowsVirtualKeyCode"]) = (json!("\r"), json!(13)),
            "Tab" => (down["code"], down["windowsVirtualKeyCode"]) = (json!("Tab"), json!(9)),
            _ if key.chars().count() == 1 => down["text"] = json!(key),
            _ => {}
        }
        self.call("Input.dispatchKeyEvent", &down);
        self.call("Input.dispatchKeyEvent", &json!({ "type": "keyUp", "key": key }));
        self.settle();
    }

    /// Clicks at a place of the window.
    pub(crate) fn click(&mut self, x: f64, y: f64) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let params = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &params);
        }
        self.settle();
    }

    /// Clicks in the middle of the first element that matches a selector, after scrolling to it.
    pub(crate) fn click_on(&mut self, selector: &str) {
        let place = self.evaluate(&format!(
            "(() => {{
                const found = document.querySelector({});
                found.scrollIntoView({{ block: 'nearest' }});
                const box = found.getBoundingClientRect();
                return [box.left + box.width / 2, box.top + box.height / 2];
            }})()",
            json!(selector)
        ));
        self.click(number(&place[0]), number(&place[1]));
    }

    /// A number that represents the content of the lanes: different pixels give a different number.
    pub(crate) fn fingerprint(&mut self) -> String {
        let sum = self.evaluate(
            "(() => {
                const canvas = document.getElementById('canvas');
                const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
                let sum = 2166136261;
                for (const byte of image.data) sum = Math.imul(sum ^ byte, 16777619);
                return String(sum);
            })()",
        );
        sum.as_str().expect("text").to_owned()
    }

    /// Writes a screenshot to a PNG file.
    pub(crate) fn screenshot(&mut self, file: &Path) {
        let shot = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        let png = STANDARD.decode(shot["data"].as_str().expect("text")).expect("base64");
        std::fs::write(file, png).expect("the file can be written");
    }

    /// Errors so far: on the console, exceptions, and requests for anything but files and the page's own data.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let complaint = |event: &Value| {
            let params = &event["params"];
            let address = params["request"]["url"].as_str().unwrap_or_default();
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => {
                    params["type"] == "error" || params["type"] == "warning"
                }
                "Log.entryAdded" => params["entry"]["level"] == "error",
                "Network.requestWillBeSent" => {
                    !address.starts_with("file:") && !address.starts_with("data:")
                }
                _ => false,
            }
        };
        self.events.iter().filter(|event| complaint(event)).map(Value::to_string).collect()
    }

    /// How many files the page has requested, itself included.
    pub(crate) fn files_read(&self) -> usize {
        let is_file = |event: &&Value| {
            event["method"] == "Network.requestWillBeSent"
                && event["params"]["request"]["url"]
                    .as_str()
                    .is_some_and(|url| url.starts_with("file:"))
        };
        self.events.iter().filter(is_file).count()
    }
}

/// A number of the page.
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            lock(&self.program.tabs).of_sessions.remove(&session);
        }
        if !std::thread::panicking() {
            let context = json!({ "browserContextId": self.context });
            self.call("Target.disposeBrowserContext", &context);
        }
    }
}
