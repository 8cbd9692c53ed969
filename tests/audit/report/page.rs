//! The report's page in a real browser.

use redouble::internals::{Scope, audit, auditor, command_table, report_html};

use super::browser::Page;
use super::journals::{
    Journals, audited, audited_by_all, counted_then_added, crowded, given_up_early, hashed, hostile, long, lost_lock,
    race, unlocked_by_hand, watched_late, written_late,
};

const WIDE: (u32, u32) = (1400, 900);

fn open(journals: &Journals) -> Page {
    open_in(journals, WIDE, "light")
}

fn open_in(journals: &Journals, size: (u32, u32), scheme: &str) -> Page {
    Page::open(&report_html(journals, &audited(journals)), size, scheme)
}

/// Where something that was drawn is in the window: the first of what the picture knows to be there that fits.
fn spot(page: &mut Page, is_meant: &str) -> (f64, f64) {
    let found = page.ask(&format!(
        "(() => {{ const hit = report.hits().find((hit) => {is_meant});
           const box = document.getElementById('canvas').getBoundingClientRect();
           const [x, y] = hit.box ? [(hit.box[0] + hit.box[2]) / 2, (hit.box[1] + hit.box[3]) / 2] : [hit.x, hit.y];
           return [box.left + x, box.top + y]; }})()"
    ));
    (found[0].as_f64().expect("a place"), found[1].as_f64().expect("a place"))
}

#[test]
fn the_race_is_told_by_the_picture() {
    let mut page = open(&race());
    assert_eq!(page.text("document.getElementById('counts').textContent"), "\u{2716} 1 error");
    // Three clients with a lane each, and a band of the lock for each.
    assert_eq!(page.text("report.lanes().map(({client}) => report.data.clients[client].name).join()"), "C3,C1,C2");
    assert_eq!(page.number("report.rows().filter(({type}) => type === 'band').length"), 3.0);
    // What was found stands beside the moment, and its evidence is marked from the beginning.
    assert_eq!(page.number("report.drawn.captions"), 1.0);
    assert_eq!(page.number("report.state.finding"), 0.0);
    assert_eq!(page.number("document.querySelectorAll('.step').length"), 3.0);
    assert_eq!(page.text("report.caption(0)"), "C2 holds, C1 still believes it");
    assert!(page.picture("race") > 20_000, "an empty picture");
    page.assert_quiet();
}

#[test]
fn a_finding_leads_to_its_moments_and_back() {
    let mut page = open(&race());
    page.press("Escape");
    page.ask("report.chooseFinding(-1)");
    page.settle();
    assert_eq!(page.text("document.querySelector('.finding').getAttribute('aria-pressed')"), "false");
    page.ask("document.querySelector('.finding').click()");
    page.settle();
    assert_eq!(page.text("document.querySelector('.finding').getAttribute('aria-pressed')"), "true");
    page.ask("document.querySelectorAll('.step')[1].click()");
    page.settle();
    let details = page.text("document.getElementById('details').textContent");
    assert!(details.contains("DEL lock.foo") && details.contains("C2"), "{details}");
    // From the mark to what it says, and from there to the finding.
    page.ask("report.chooseFinding(-1)");
    page.settle();
    let moment = page.number("report.data.findings[0].evidence[2].moment");
    let (x, y) = spot(&mut page, &format!("hit.moment === {moment}"));
    page.click(x, y);
    assert_eq!(page.number("report.state.moment"), moment);
    let details = page.text("document.getElementById('details').textContent");
    assert!(details.contains("SETNX lock.foo 1700000030") && details.contains("took the lock"), "{details}");
    page.ask("document.querySelector('#details .link').click()");
    assert_eq!(page.number("report.state.finding"), 0.0);
    page.ask("report.chooseFinding(-1)");
    page.settle();
    let (x, y) = spot(&mut page, "hit.finding === 0");
    page.click(x, y);
    assert_eq!(page.number("report.state.finding"), 0.0);
    page.assert_quiet();
}

#[test]
fn filters_leave_what_is_asked_for() {
    let mut page = open(&long(2000));
    assert_eq!(page.number("report.lanes().length"), 24.0);
    let all = page.number("report.kept.reduce((sum, one) => sum + one, 0)");
    let set = |page: &mut Page, id: &str, what: &str, event: &str| {
        page.ask(&format!(
            "(() => {{ const input = document.getElementById('{id}'); {what}; input.dispatchEvent(new Event('{event}')); }})()"
        ));
        page.settle();
    };
    set(&mut page, "client", "input.value = '3'", "change");
    assert_eq!(page.number("report.lanes().length"), 1.0);
    set(&mut page, "client", "input.value = '-1'", "change");
    set(&mut page, "lock", "input.value = '0'", "change");
    assert_eq!(page.number("report.rows().filter(({type}) => type === 'head').length"), 1.0);
    assert!(page.number("report.kept.reduce((sum, one) => sum + one, 0)") < all / 4.0);
    set(&mut page, "lock", "input.value = '-1'", "change");
    set(&mut page, "only-locks", "input.checked = true", "change");
    assert!(page.number("report.kept.reduce((sum, one) => sum + one, 0)") < all);
    assert_eq!(
        page.text("String(report.data.moments.some((moment, at) => report.kept[at] && moment.lock === undefined))"),
        "false"
    );
    set(&mut page, "only-locks", "input.checked = false", "change");
    set(&mut page, "search", "input.value = 'COUNTER:7'", "input");
    let shown = page.text("document.getElementById('shown').textContent");
    let left = page.number("report.kept.reduce((sum, one) => sum + one, 0)");
    assert!(left > 0.0 && shown.starts_with(&format!("{left} of 2,000 commands")), "{shown}");
    page.assert_quiet();
}

#[test]
fn keys_and_the_wheel_move_the_picture() {
    let mut page = open(&race());
    page.ask("document.getElementById('stage').focus()");
    // In thousandths, as the difference of two moments is not exact.
    let span = "Math.round(1000 * (report.state.to - report.state.from))";
    let all = page.number(span);
    page.press("+");
    let nearer = page.number(span);
    assert!(nearer < all);
    page.press("-");
    assert!(page.number(span) > nearer);
    page.press("+");
    page.press("0");
    assert_eq!(page.number(span), all);
    page.press("Escape");
    page.press("ArrowRight");
    let first = page.number("report.state.moment");
    page.press("ArrowDown");
    assert_ne!(
        page.number("report.data.moments[report.state.moment].client"),
        page.number(&format!("report.data.moments[{first}].client"))
    );
    page.press("n");
    assert_eq!(page.number("report.state.finding"), 0.0);
    page.turn(900.0, 400.0, -300.0);
    assert!(page.number(span) < all);
    // The axes have the same moments at other places.
    for axis in 0..3 {
        page.ask(&format!("report.chooseAxis({axis})"));
        page.settle();
        assert!(page.number("report.drawn.marks") >= 3.0, "axis {axis}");
    }
    page.assert_quiet();
}

#[test]
fn it_is_light_or_dark_as_the_browser_wants_or_somebody_chooses() {
    let corner = "(() => { const copy = document.createElement('canvas').getContext('2d');
        copy.drawImage(document.getElementById('canvas'), 0, 0);
        const [r, g, b] = copy.getImageData(3, 3, 1, 1).data; return r + g + b; })()";
    let mut light = open(&race());
    light.settle();
    assert!(light.number(corner) > 700.0);
    light.assert_quiet();
    let mut dark = open_in(&race(), WIDE, "dark");
    assert_eq!(dark.text("document.documentElement.dataset.theme"), "dark");
    dark.settle();
    assert!(dark.number(corner) < 150.0);
    dark.picture("race-dark");
    dark.ask("document.getElementById('theme').click()");
    dark.settle();
    assert!(dark.number(corner) > 700.0);
    dark.assert_quiet();
}

#[test]
fn it_fits_a_narrow_window() {
    let mut page = open_in(&race(), (420, 900), "light");
    assert!(page.number("document.documentElement.scrollWidth") <= 420.0);
    assert!(page.number("report.drawn.marks") >= 7.0);
    page.picture("race-narrow");
    page.assert_quiet();
}

#[test]
fn only_what_can_be_seen_of_ten_thousand_commands_is_drawn() {
    let mut page = open(&long(10_000));
    assert_eq!(page.number("report.data.moments.length"), 10_000.0);
    // All at once: no more than a mark of each kind for each point of a lane that can be seen.
    let rows = page.number("document.getElementById('stage').clientHeight / 50");
    for axis in 0..3 {
        page.ask(&format!("report.chooseAxis({axis})"));
        page.ask("document.getElementById('stage').scrollTop = 1e6");
        page.settle();
        let marks = page.number("report.drawn.marks");
        assert!(marks > 100.0 && marks < (rows + 2.0) * 1400.0, "axis {axis}: {marks} marks");
    }
    // Near by: what is out of sight costs nothing.
    page.ask("report.chooseAxis(0)");
    page.ask("report.zoom(0.005)");
    page.settle();
    let marks = page.number("report.drawn.marks");
    assert!(marks < 200.0, "{marks} marks");
    assert!(page.number("report.drawn.labels") < 600.0);
    // However often it is moved between two frames, it is drawn once for each.
    let before = page.number("report.drawn.draws");
    page.ask("for (let at = 0; at < 500; at += 1) report.zoom(at % 2 ? 0.9 : 1.1)");
    page.settle();
    let draws = page.number("report.drawn.draws") - before;
    assert!(draws <= 3.0, "{draws} draws");
    page.picture("ten-thousand");
    page.assert_quiet();
}

#[test]
fn nothing_that_strangers_send_comes_alive() {
    let mut page = open(&hostile());
    assert_eq!(page.text("typeof window.hacked"), "undefined");
    assert_eq!(page.number("document.images.length + document.querySelectorAll('script').length"), 2.0);
    let sentence = page.text("document.querySelector('.sentence').textContent");
    assert!(sentence.contains("</script><script>hacked=1</script>"), "{sentence}");
    // Nor would it, if it stood there as markup.
    page.ask("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked = 1\">')");
    page.settle();
    assert_eq!(page.text("typeof window.hacked"), "undefined");
}

/// What lies where it should not: flags on one another or beside the picture, labels that leave it or are cut off, names that are
/// not whole, findings that no flag stands for.
const MISPLACED: &str = r#"(() => {
  const { width, gutter } = report.size();
  const wrong = [];
  const flags = report.hits().filter((hit) => hit.finding !== undefined);
  flags.forEach(({ box: [left, top, right, bottom], numbers }, at) => {
    if (left < gutter || right > width) wrong.push(`flag ${numbers} from ${left} to ${right}`);
    for (const other of flags.slice(at + 1)) {
      const [l, t, r, b] = other.box;
      if (left < r && l < right && top < b && t < bottom) wrong.push(`flags ${numbers} and ${other.numbers}`);
    }
  });
  for (const { text, left, right, y } of report.labels()) {
    if (text.endsWith('\u2026')) wrong.push(`cut: ${text}`);
    if (left < gutter || right > width + 1) wrong.push(`label ${text} from ${left} to ${right}`);
  }
  for (const row of report.rows().filter(({ names, client }) => names && client !== undefined)) {
    const whole = row.names.join('').replaceAll(' ', '');
    if (whole !== report.title(row.client).replaceAll(' ', '')) wrong.push(`name ${whole}`);
  }
  const [top, bottom] = [document.getElementById('stage').scrollTop / report.scale(), report.size().height];
  const shown = new Set(flags.flatMap(({ numbers }) => numbers));
  for (const row of report.rows().filter(({ type, y }) => type === 'captions' && y > top && y + 120 < top + bottom)) {
    for (const number of row.found) {
      const x = report.place(report.data.findings[number].spot);
      if (x > gutter && x < width && !shown.has(number)) wrong.push(`no flag for ${number}`);
    }
  }
  return wrong.slice(0, 5).join('; ');
})()"#;

#[test]
fn no_flag_lies_on_another_one_and_no_label_is_cut_off_at_any_width() {
    for journals in [race(), hostile(), crowded(400), long(3000), lost_lock()] {
        for size in [(390, 844), (1280, 800), (2560, 1440)] {
            let mut page = Page::open(&report_html(&journals, &audited_by_all(&journals)), size, "light");
            let last = page.number("report.data.findings.length - 1");
            for finding in [-1.0, 0.0, last] {
                page.ask(&format!("report.chooseFinding({finding})"));
                for axis in 0..3 {
                    page.ask(&format!("report.chooseAxis({axis})"));
                    for step in ["report.fit()", "report.zoom(0.3)", "report.zoom(0.1)"] {
                        page.ask(step);
                        page.settle();
                        let wrong = page.text(MISPLACED);
                        assert_eq!(wrong, "", "{size:?}, finding {finding}, axis {axis}, {step}");
                    }
                }
            }
            page.assert_quiet();
        }
    }
}

#[test]
fn what_did_most_harm_is_open_and_says_what_to_do_and_how_to_deny_it() {
    let journals = crowded(60);
    let mut page = Page::open(&report_html(&journals, &audited_by_all(&journals)), WIDE, "light");
    assert_eq!(page.number("report.state.finding"), 0.0);
    let told = page.text("document.querySelector('.more').textContent");
    assert!(told.contains("Instead: ") && told.contains("--not-locks") && told.contains("explain --key"), "{told}");
    // What a finding means stands in the page itself.
    let explained = page.text("document.querySelector('.more details').textContent");
    assert!(explained.contains("Seen when"), "{explained}");
    // Findings that are the same mistake have one place in the list, and all of them can be seen from there.
    let (listed, all) = ("document.querySelectorAll('.finding').length", "report.data.findings.length");
    assert!(page.number(listed) * 2.0 < page.number(all), "{}", page.number(listed));
    page.ask("report.chooseFinding(report.data.findings.findIndex(({ first }, number) => first === number - 1))");
    page.ask("document.querySelector('.more .link').click()");
    page.ask("[...document.querySelectorAll('.more:not([hidden]) .link')].at(-1).click()");
    assert_ne!(page.number("report.data.findings[report.state.finding].first"), page.number("report.state.finding"));
    assert_eq!(page.text("location.hash"), page.text("`#finding-${report.state.finding + 1}`"));
    page.assert_quiet();
}

/// The values of a row, each with `!` behind it if it was lost.
const VALUES: &str = "report.rows().find(({ type }) => type === 'value').spans
    .map(({ value, isLost }) => `${value}${isLost ? '!' : ''}`).join(' ')";
const STEPS: &str = "[...document.querySelectorAll('.more:not([hidden]) .step > span:nth-child(2)')].map((step) => step.textContent).join('; ')";

#[test]
fn a_reader_sees_which_value_was_lost_and_when_and_that_the_lock_was_given_up_before_the_write() {
    let journals = given_up_early();
    let mut page = Page::open(&report_html(&journals, &audited_by_all(&journals)), WIDE, "light");
    assert_eq!(
        page.text("report.headline(0)"),
        "worker.py north, client 3 wrote `1010` to `cursor` at +920.0 ms over the `1005` of worker.py south, client 5 (+913.0 ms), \
         which is lost"
    );
    assert_eq!(
        page.text("report.caption(0)"),
        "worker.py north, client 3 wrote 1010 over the 1005 of worker.py south, client 5"
    );
    assert_eq!(page.text(VALUES), "1000 1005! 1010");
    let steps = page.text(STEPS);
    for step in [
        "+901.0 ms worker.py north, client 3 read 1000",
        "+902.0 ms worker.py north, client 2 released export:lock, before it wrote",
        "+911.0 ms worker.py south, client 5 read 1000",
        "+913.0 ms worker.py south, client 5 wrote 1005: this is lost",
        "+920.0 ms worker.py north, client 3 wrote 1010 from what it had read before",
    ] {
        assert!(steps.contains(step), "{step}: {steps}");
    }
    let told = page.text("document.querySelector('.more').textContent");
    assert!(told.contains("had released export:lock at +902.0 ms, before it wrote at +920.0 ms"), "{told}");
    assert!(told.contains("Instead: Release export:lock only after the write"), "{told}");
    // What it is about stands above everything else, and the connections of a program side by side.
    let heads =
        "report.rows().filter(({ type }) => type === 'head' || type === 'title').map(({ text }) => text).join('; ')";
    assert_eq!(
        page.text(heads),
        "Data cursor; Lock export:lock; Commands of the clients of this finding; Commands of all other clients"
    );
    assert_eq!(page.text("report.rows().filter(({ type }) => type === 'lane').map(({ client }) => report.data.clients[client].id).join()"), "2,3,4,5,1");
    // The ruler is broken where time is left out.
    assert_eq!(page.text("report.cut().map((cut) => (cut ? '/' : '.')).join('').slice(0, 3)"), "/..");
    page.picture("given-up-early");
    page.assert_quiet();
}

#[test]
fn a_reader_sees_why_two_clients_hold_a_lock_after_a_failover() {
    let journals = lost_lock();
    let mut page = Page::open(&report_html(&journals, &audited_by_all(&journals)), WIDE, "light");
    let heads =
        "report.rows().filter(({ type }) => type === 'head' || type === 'title').map(({ text }) => text).join('; ')";
    assert_eq!(
        page.text(heads),
        "Who was master, and what reached the replicas; Lock order:lock (server 2); Lock order:lock (server 1); Commands of the \
         clients of this finding"
    );
    page.settle();
    let labels = page.text("report.labels().map(({ text }) => text).join('; ')");
    for label in
        ["master", "link held", "200ms late", "never got SET order:lock NX PX 30000", "held by alice", "held by bob"]
    {
        assert!(labels.contains(label), "{label}: {labels}");
    }
    // A click on the cross says what it is.
    let (x, y) = spot(&mut page, "report.data.moments[hit.moment]?.event === 'lost'");
    page.click(x, y);
    let told = page.text("document.body.textContent");
    assert!(told.contains("127.0.0.1:7001 is master now, and never got this change of order:lock"), "{told}");
    page.picture("lost-in-failover");
    page.assert_quiet();
}

#[test]
fn a_reader_sees_that_the_watch_came_after_the_read() {
    let journals = watched_late();
    let mut page = Page::open(&report_html(&journals, &audited_by_all(&journals)), WIDE, "light");
    let steps = page.text(STEPS);
    assert_eq!(steps.matches("watched the key, after it had read it").count(), 2, "{steps}");
    assert!(
        page.text("report.headline(0)")
            .ends_with("both wrote `seat-A2,seat-A3` to `free`: one of the two changes is lost")
    );
    let told = page.text("document.querySelector('.more').textContent");
    assert!(told.contains("Instead: WATCH the key before you read it, not after"), "{told}");
    page.assert_quiet();
}

#[test]
fn what_comes_from_one_command_stands_together_below_it() {
    let journals = unlocked_by_hand();
    let mut page = Page::open(&report_html(&journals, &audited_by_all(&journals)), WIDE, "light");
    assert!(page.number("document.querySelectorAll('.finding').length") >= 3.0);
    let cause = page.text("document.querySelector('.incident .cause').textContent");
    assert!(
        cause.ends_with(
            "findings from one command: redis-cli 103 deleted migration:lock at +10.0 ms, while worker.py north held it"
        ),
        "{cause}"
    );
    let together = page.number("document.querySelectorAll('.incident .finding').length");
    assert_eq!(together, page.number("report.incidents()[0].numbers.length"));
    let holders = page.text(
        "report.data.findings.map((finding, at) => finding.code === 'two-holders' ? report.caption(at) : '').join('')",
    );
    assert_eq!(holders, "worker.py south holds, worker.py north still believes it");
    // The list and the picture choose the same one.
    page.ask("document.querySelectorAll('.finding')[2].click()");
    assert_eq!(
        page.text("`finding-${report.state.finding + 1}`"),
        page.text("document.querySelectorAll('.finding')[2].id")
    );
    page.picture("unlocked-by-hand");
    page.assert_quiet();
}

#[test]
fn a_reader_sees_how_long_before_the_write_a_lock_had_expired() {
    let journals = written_late();
    let mut page = Page::open(&report_html(&journals, &audited_by_all(&journals)), WIDE, "light");
    let told = page.text("document.querySelector('.more').textContent");
    assert!(told.contains("The hold of worker.py north on migration:lock had expired at +10"), "{told}");
    assert!(told.contains("before it wrote at +200.0 ms"), "{told}");
    page.assert_quiet();
}

#[test]
fn a_reader_sees_who_is_in_a_semaphore_at_once() {
    let journals = counted_then_added();
    let scope = Scope { locks: vec![b"room".to_vec()], ..Scope::default() };
    let auditor = audit(journals.clone(), auditor(scope, command_table()).with_timeline());
    let mut page = Page::open(&report_html(&journals, &auditor), WIDE, "light");
    let values = "report.rows().filter(({ type }) => type === 'value').flatMap(({ spans }) => spans.map(({ value }) => value)).join('; ')";
    assert_eq!(
        page.text(values),
        "1: worker.py north; 2: worker.py north, worker.py south; 1: worker.py south; nobody"
    );
    page.assert_quiet();
}

#[test]
fn hashes_of_a_recording_are_not_told_as_values() {
    let journals = hashed();
    let mut page = Page::open(&report_html(&journals, &audited_by_all(&journals)), WIDE, "light");
    assert_eq!(
        page.text("report.headline(0)"),
        "worker.py north overwrote at +3.0 ms what worker.py south had written to `rows` at +2.0 ms, which is lost"
    );
    assert_eq!(page.text("report.caption(0)"), "worker.py north overwrote what worker.py south wrote");
    page.assert_quiet();
}
