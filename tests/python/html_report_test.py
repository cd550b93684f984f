"""The page of `ddprun report` in a browser, Chromium without a window. Argument: the command ddprun. 77: there is no Chromium.

Scripts that tests run in the page act as its reader would.
"""
import base64
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from helpers import own_folder

PROGRAM = str(Path(sys.argv[1]).resolve())
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TRAINING = """name: page
model: {preset: tiny, vocab_size: 256, context_length: 16, layers: 1}
world: {size: 2}
precision: fp32
attention: sdpa
train: {global_batch: 2, warmup_steps: 1, steps: 3}
report: {repeats: 2}
sweep: {strategy: [naive, flat, {name: bucketed, bucket_mb: 1}, {name: bucketed, bucket_mb: 2}]}
"""
COLLECTIVES = """experiment: collectives
name: calls
world: {size: 2}
collectives: {collective: all_reduce}
repeat: {warmup: 1, count: 4}
sweep: {world.backend: [gloo, mpi], collectives.bytes: [1000, 20000]}
"""
MEMORY = """name: memory
model: {preset: tiny, context_length: 16, layers: 1}
world: {size: 1}
strategy: none
precision: fp32
attention: sdpa
train: {batch_per_rank: 2, warmup_steps: 2, steps: 1}
profile: {memory: true}
report: {html: true}
"""
HOSTILE = "</script><script>document.title = 'broken'</script><img src=x onerror=\"document.title = 'broken'\"><!-- "
DATA = re.compile(r'(<script type="application/json" id="data">)(.*?)(</script>)', re.DOTALL)


def data_of(page):
    return json.loads(DATA.search(page)[2])


def with_data(page, data):
    return DATA.sub(lambda found: found[1] + json.dumps(data).replace("<", "\\u003c") + found[3], page)


class Rows(HTMLParser):
    """The table of rows in a dumped page: lists of (text, data-value), and the titles with their aria-sort."""

    def __init__(self, dom):
        super().__init__()
        self.lines, self.sorted, self.inside, self.cell = [], {}, False, None
        self.feed(dom)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "table":
            self.inside = given.get("class") == "rows"
        if not self.inside:
            return
        if tag == "th" and "data-key" in given:
            self.sorted[given["data-key"]] = given.get("aria-sort")
        if tag == "tr" and "data-row" in given:
            self.lines.append([])
        if tag in ("td", "th") and self.lines:
            value = given.get("data-value")
            self.cell = [float(value) if value is not None else None, ""]
            self.lines[-1].append(self.cell)

    def handle_data(self, text):
        if self.cell:
            self.cell[1] += text

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None

    @property
    def names(self):
        return [line[0][1] for line in self.lines]


class Browser:
    """One page of Chromium, led by the DevTools protocol: messages of JSON that end with a zero byte, over its file descriptors 3 and 4."""

    def __init__(self, profile):
        hears, says = os.pipe()
        answers, tells = os.pipe()
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{hears} 4>&{tells}', "bash", CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu",
             "--remote-debugging-pipe", f"--user-data-dir={profile}"], pass_fds=(hears, tells), stderr=subprocess.DEVNULL)
        os.close(hears)
        os.close(tells)
        self.says, self.answers = os.fdopen(says, "wb", 0), os.fdopen(answers, "rb", 0)
        self.session, self.asked, self.events, self.begun = None, 0, [], b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait()
        self.says.close()
        self.answers.close()

    def next_message(self):
        parts = [self.begun]
        while b"\0" not in parts[-1]:  # a page is many of them
            parts.append(os.read(self.answers.fileno(), 1 << 20))
            if not parts[-1]:
                raise RuntimeError("Chromium has ended")
        message, _, self.begun = b"".join(parts).partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self.asked += 1
        session = {"sessionId": self.session} if self.session else {}
        self.says.write(json.dumps({"id": self.asked, "method": method, "params": parameters, **session}).encode() + b"\0")
        while (message := self.next_message()).get("id") != self.asked:
            self.events.append(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']['message']}")
        return message["result"]

    def open(self, address):
        self.events = []
        self.call("Page.navigate", url=address)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.next_message())

    def value(self, expression):
        """Of the expression in the page, once what it promises has come."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def console(self):
        """What the page opened last has written there."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in kinds]


class Page(unittest.TestCase):
    doms = {}  # what Chromium makes of a page

    @classmethod
    def setUpClass(cls):
        cls.folder = own_folder(cls)
        cls.browser = Browser(cls.folder / "profile")
        cls.addClassCleanup(cls.browser.close)
        cls.opened = 0
        for name, text in (("page", TRAINING), ("calls", COLLECTIVES), ("memory", MEMORY)):
            (cls.folder / f"{name}.yaml").write_text(text, encoding="utf-8")
            subprocess.run([PROGRAM, f"{name}.yaml", "--quiet"], cwd=cls.folder, check=True, capture_output=True)
        subprocess.run([PROGRAM, "report", "results/page", "-o", "page.html"], cwd=cls.folder, check=True, capture_output=True)
        subprocess.run([PROGRAM, "report", "results/page", "results/calls", "-o", "both.html"], cwd=cls.folder, check=True, capture_output=True)
        cls.page = (cls.folder / "page.html").read_text(encoding="utf-8")
        cls.both = (cls.folder / "both.html").read_text(encoding="utf-8")
        cls.result = data_of(cls.page)[0]["result"]

    def open(self, page, fragment="", width=1280, height=9000):
        """Until its pictures are there."""
        Page.opened += 1
        file = self.folder / f"opened-{self.opened}.html"
        file.write_text(page, encoding="utf-8")
        self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.browser.open(file.as_uri() + fragment)
        self.browser.value("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(drawn))))")

    def dom(self, page=None, fragment=""):
        key = (page or self.page, fragment)
        if key not in self.doms:
            self.open(*key)
            self.assertEqual(self.browser.console(), [])
            self.doms[key] = self.browser.value("document.documentElement.outerHTML")
        return self.doms[key]

    def seen(self, script, page=None, fragment=""):
        """The value of the expression in the page, once it and its pictures are there."""
        self.open(page or self.page, fragment)
        value = self.browser.value(script)
        self.assertEqual(self.browser.console(), [])
        return value

    def test_the_numbers_of_the_table_are_those_of_the_result(self):
        rows = Rows(self.dom())
        self.assertEqual(rows.names, [line["name"] for line in self.result["table"]])
        keys = list(rows.sorted)
        for line, shown in zip(self.result["table"], rows.lines):
            figures = {key: value for key, (value, _) in zip(keys, shown) if value is not None}
            self.assertGreater(len(figures), 10)
            for key, value in figures.items():
                self.assertEqual(value, line["figures"][key], key)
            text = shown[keys.index("step_ms")][1]
            self.assertAlmostEqual(float(text.split(" ± ")[0]), line["figures"]["step_ms"], delta=0.06)

    def test_it_sorts_and_filters_by_its_address(self):
        steps = {line["name"]: line["figures"]["step_ms"] for line in self.result["table"]}
        ascending = Rows(self.dom(fragment="#sort=step_ms"))
        self.assertEqual(ascending.names, sorted(steps, key=steps.get))
        self.assertEqual({key: order for key, order in ascending.sorted.items() if order}, {"step_ms": "ascending"})
        descending = Rows(self.dom(fragment="#sort=step_ms&order=desc&filter=BUCKETED%20proved"))
        self.assertEqual(descending.names, sorted((name for name in steps if "bucketed" in name), key=steps.get, reverse=True))
        self.assertEqual(descending.sorted["step_ms"], "descending")
        self.assertEqual(Rows(self.dom(fragment="#filter=nothing+of+that")).names, [])

    def test_a_title_that_is_pressed_sorts_and_the_address_says_so(self):
        press = "document.querySelector('th[data-key=\"step_ms\"] button').click()"
        self.assertEqual(self.seen(f"({press}, {press}, location.hash)"), "#sort=step_ms&order=desc")
        type_words = ("(() => { const box = document.querySelector('input[type=search]'); box.value = 'flat'; box.dispatchEvent(new Event('input'));"
                      "return [location.hash, document.querySelectorAll('table.rows tbody tr').length]; })()")
        self.assertEqual(self.seen(type_words), ["#filter=flat", 1])

    def test_charts_are_drawn_and_say_what_they_show(self):
        labels = [unescape(label) for label in re.findall(r'<canvas[^>]*aria-label="([^"]*)"', self.dom(self.both))]
        fastest = min(self.result["table"], key=lambda line: line["figures"]["step_ms"])
        self.assertIn(f"The shortest time is that of {fastest['name']}", " ".join(labels))
        titles = [label.split(".")[0] for label in labels]
        for title in ("What a step is made of", "Each step", "Loss", "How long a call takes", "Busbw by bytes"):
            self.assertIn(title, titles)
        self.assertNotIn("Speed on more ranks", titles)
        memory = [line["figures"]["peak_memory_bytes"] for line in self.result["table"]]
        self.assertEqual("Time against memory" in titles, max(memory) >= 1.01 * min(memory))
        for title, figure in (("Exposed by bucket size", "exposed_ms"), ("Step ms by bucket size", "step_ms")):
            of_buckets = [line["figures"][figure] for line in self.result["table"] if "bucketed" in line["name"]]
            moves = max(of_buckets) > 1.01 * min(of_buckets)  # or all of it was hidden
            if figure == "exposed_ms":
                moves = moves and any(line["figures"][figure] > 0.01 * line["figures"]["step_ms"] for line in self.result["table"] if "bucketed" in line["name"])
            self.assertEqual(title in titles, moves, of_buckets)
        for label in labels:
            self.assertIn(". ", label, "it was not drawn")
        drawn = self.seen("pictures.map(picture => (picture.show(), picture.chart !== null))")
        self.assertEqual(set(drawn), {True})

    def test_what_a_chart_shows_stands_in_a_table_too(self):
        cells = self.seen("(() => { const picture = pictures[0]; picture.show(); picture.numbers.open = true; picture.numbers.fill();"
                          "return [...picture.numbers.querySelectorAll('tbody tr')].map(line => [...line.cells].map(cell => cell.textContent)); })()")
        self.assertEqual([line[0] for line in cells], [line["name"] for line in self.result["table"]])
        for line, of in zip(cells, self.result["table"]):
            self.assertAlmostEqual(float(line[1].replace(",", "")), of["figures"]["step_ms"], delta=0.06)
            self.assertEqual(line[4], "± standard deviation between runs")

    def test_files_have_the_figures_in_full(self):
        table = list(csv.DictReader(io.StringIO(self.seen("tableCsv(sections[0].view)", fragment="#filter=flat"))))
        flat = next(line for line in self.result["table"] if line["name"] == "flat")
        self.assertEqual(len(table), 1)
        self.assertEqual(float(table[0]["step_ms"]), flat["figures"]["step_ms"])
        self.assertEqual(float(table[0]["step_ms_std"]), flat["std"]["step_ms"])
        samples = list(csv.DictReader(io.StringIO(self.seen("samplesCsv(sections[0].view)"))))
        expected = [value for row in self.result["rows"] for rank in row["ranks"] for value in rank["samples"]["step_ms"]]
        self.assertEqual([float(sample["step_ms"]) for sample in samples], expected)

    def test_the_yaml_is_the_experiment(self):
        text = unescape(re.search(r"<pre>(.*?)</pre>", self.dom(), re.DOTALL)[1])
        for line in ("precision:\n  name: fp32\n", "  context_length: 16\n", "  global_batch: 2\n"):
            self.assertIn(line, text)
        self.assertNotIn("bucket_mb", text)

    def test_readers_of_screens_find_their_way(self):
        dom = self.dom(self.both)
        for page in (self.page, self.both):
            levels = [int(level) for level in re.findall(r"<h([1-6])", self.dom(page))]
            self.assertEqual(levels.count(1), 1)
            self.assertTrue(all(after <= before + 1 for before, after in zip(levels, levels[1:])), levels)
        for table in re.findall(r"<table.*?</table>", dom, re.DOTALL):
            self.assertIn("<caption>", table)
            self.assertIn('scope="col"', table)
            self.assertIn('scope="row"', table)
        ids = re.findall(r'\sid="([^"]*)"', dom)
        self.assertEqual(len(ids), len(set(ids)))
        for link in re.findall(r'href="#([^"]*)"', dom):
            self.assertIn(link, ids)
        self.assertEqual(re.findall(r'<canvas(?![^>]*role="img")', dom), [])

    def test_a_row_that_did_not_run_says_why(self):
        rows = Rows(self.dom(self.both)).lines
        self.assertIn("not here: ", " ".join(text for line in rows for _, text in line))

    def test_texts_of_a_result_stay_texts(self):
        def reasons(row):
            if row["status"] != "ok":
                row["reason"] = HOSTILE

        page = self.page_of("calls", reasons)
        self.assertEqual(self.seen("[document.title, document.querySelectorAll('img').length, document.body.textContent.includes('<img src=x onerror=')]", page),
                         ["calls – ddprun", 0, True])

    def page_of(self, name, change):
        """The page of a result whose rows were changed."""
        result = json.loads((self.folder / f"results/{name}/latest/result.json").read_text(encoding="utf-8"))
        for row in result["rows"]:
            change(row)
        (self.folder / "changed").mkdir(exist_ok=True)
        (self.folder / "changed/result.json").write_text(json.dumps(result), encoding="utf-8")
        subprocess.run([PROGRAM, "report", "changed", "-o", "changed.html"], cwd=self.folder, check=True, capture_output=True)
        return (self.folder / "changed.html").read_text(encoding="utf-8")

    def test_the_timeline_is_in_the_page_with_words_for_it(self):
        picture = (self.folder / "results/page/latest/timeline.svg").read_text(encoding="utf-8")
        self.assertEqual(data_of(self.page)[0]["timeline"], picture)
        shown = ("(([picture]) => [picture.getAttribute('role'), picture.querySelector(':scope > title').textContent, picture.querySelector(':scope > desc').textContent,"
                 "document.querySelectorAll('svg').length, picture.querySelectorAll('rect').length])(document.querySelectorAll('#result-1-timeline svg'))")
        role, title, words, pictures, bars = self.seen(shown)
        self.assertEqual((role, title, pictures), ("img", "The last step, rank by rank", 1))
        for line in self.result["table"]:
            self.assertIn(f"{line['name']}: step ", words)
        self.assertEqual(bars, picture.count("<rect "))
        self.assertEqual(self.seen("document.querySelectorAll('svg').length", self.both), 1)  # calls have none

    def test_pictures_have_the_colours_of_the_page_and_leave_it_its_own(self):
        script = ("(() => { document.body.insertAdjacentHTML('beforeend', '<svg id=other><text class=dim>other</text></svg>');"
                  "const styleOf = name => getComputedStyle(document.querySelector(name));"
                  "return [styleOf('.drawn text.dim').fill, styleOf('.drawn .grid').stroke, styleOf('.drawn .paper').display, styleOf('#other text').fill]; })()")
        light = self.seen(script)
        self.assertEqual(light, ["rgb(89, 99, 110)", "rgb(216, 222, 228)", "none", "rgb(0, 0, 0)"])
        self.browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.addCleanup(self.browser.call, "Emulation.setEmulatedMedia", features=[])
        self.assertEqual(self.seen(script), ["rgb(157, 167, 179)", "rgb(48, 54, 61)", "none", "rgb(0, 0, 0)"])

    def test_memory_is_a_picture_and_nothing_else(self):
        looked = "[...document.querySelectorAll('#result-1-memory img')].map(each => [each.naturalWidth, each.alt])"
        for page in ((self.folder / "results/memory/latest/report.html").read_text(encoding="utf-8"), self.page_of_memory()):
            ((width, words),) = self.seen(looked, page)
            self.assertGreater(width, 900)
            self.assertRegex(words, r"At the peak, in \w+: .*parameters [\d.]+ MB")
        result = self.folder / "results/memory/latest"
        picture = result / "profile/01/memory.svg"
        picture.write_text(picture.read_text(encoding="utf-8").replace("</svg>", f"{HOSTILE}<script>top.document.title = 'broken'</script></svg>"), encoding="utf-8")
        self.assertEqual(self.seen("[document.title, document.querySelectorAll('img').length]", self.page_of_memory()), ["memory – ddprun", 1])

    def page_of_memory(self):
        subprocess.run([PROGRAM, "report", "results/memory", "-o", "memory.html"], cwd=self.folder, check=True, capture_output=True)
        return (self.folder / "memory.html").read_text(encoding="utf-8")

    def test_labels_in_the_timeline_stay_texts(self):
        def labels(row):
            for rank in row["ranks"]:
                for step in rank["timeline"]:
                    for each in step["units"]:
                        each["name"] = HOSTILE

        page = self.page_of("page", labels)
        self.assertEqual(self.seen("[document.title, document.querySelectorAll('img').length, document.querySelector('svg').textContent.includes('<img src=x onerror=')]", page),
                         ["page – ddprun", 0, True])

    def test_the_console_is_heard_and_the_network_is_shut(self):
        for script, heard in (("new Promise(done => { setTimeout(() => { throw new Error('planted'); }); setTimeout(done); })", "planted"),
                              ("fetch('https://example.invalid/').catch(() => {})", "Content Security Policy")):
            self.open(self.page)
            self.browser.value(script)
            self.assertIn(heard, " ".join(self.browser.console()))

    def test_paper_has_every_chart(self):
        drawings = []  # a canvas that was drawn on is a form of PDF
        for script in ("", "removeEventListener('beforeprint', beforePrint)"):
            self.open(self.both, height=300)
            self.browser.value(script)
            paper = base64.b64decode(self.browser.call("Page.printToPDF")["data"])
            self.assertEqual(self.browser.console(), [])
            drawings.append(paper.count(b"/Subtype /Form"))
        self.assertGreaterEqual(drawings[0], self.seen("pictures.length", self.both))
        self.assertEqual(drawings[1], 0)

    def test_a_narrow_screen_scrolls_tables_and_not_the_page(self):
        framed = ("(() => { document.body.style.width = '390px'; document.body.style.margin = '0';"
                  "return [...document.body.querySelectorAll('section, figure, nav, ul, p, .tools')].every(each => each.getBoundingClientRect().right <= 391); })()")
        self.assertTrue(self.seen(framed, self.both))

    def test_many_results_are_built_when_they_are_opened(self):
        page = with_data(self.page, data_of(self.page) * 13)
        self.assertEqual(self.seen("document.querySelectorAll('article').length", with_data(self.page, data_of(self.page) * 12)), 12)
        shown = "[...document.querySelectorAll('details.result')].map(each => each.open), [...document.querySelectorAll('article')].map(each => each.id)"
        self.assertEqual(self.seen(f"[{shown}]", page), [[False] * 13, []])
        at_seventh = [[each == 6 for each in range(13)], ["result-7"]]
        self.assertEqual(self.seen(f"[{shown}]", page, "#result-7-charts"), at_seventh)
        filtered = "(document.querySelectorAll('details.result')[2].fill(), document.querySelectorAll('#result-3 tbody tr[data-row]').length)"
        self.assertEqual(self.seen(filtered, page, "#filter=flat"), 1)

    def many(self, count):
        data = data_of(self.page)
        result, table = data[0]["result"], data[0]["table"]
        lines, runs = result["table"], result["rows"]
        result["table"], result["rows"], cells, operators = [], [], [], []
        for i in range(count):
            line, begin = lines[i % len(lines)], lines[i % len(lines)]["first_row"] - 1
            result["table"].append({**line, "name": f"{line['name']} {i}", "first_row": len(result["rows"]) + 1, "runs": 1})
            result["rows"].append(runs[begin])
            cells.append({**table["lines"][i % len(lines)]})
            operators.append(None)
        table["lines"], data[0]["operators"] = cells, operators
        return with_data(self.page, data)

    def test_long_runs_are_drawn(self):
        data, steps = data_of(self.page), 20000
        for row in data[0]["result"]["rows"]:
            del row["ranks"][1:]
            row["ranks"][0]["samples"] = {"step": list(range(steps)), "warmup": [False] * steps, "step_ms": [1.0] * steps}
        shown = "pictures.filter(picture => picture.title === 'Each step').map(picture => (picture.show(), picture.drawn.label))"
        self.assertEqual(self.seen(shown, with_data(self.page, data)), ["Lines of 4 rows."])

    def test_many_rows_are_all_there(self):
        dom = self.dom(self.many(1000))
        self.assertEqual(len(Rows(dom).lines), 1000)
        ready_ms = int(re.search(r'data-ready="(\d+)"', dom)[1])
        print(f"1000 rows: {ready_ms / 1000} s")  # for whoever looks: the machine may be busy


if __name__ == "__main__":
    if CHROMIUM is None:
        print("skipped: no Chromium, which `scripts/setup.sh --with-tests` installs")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
