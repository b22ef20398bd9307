"""The report: what it collects, that no text of a run becomes markup, and the page in a real browser."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from fedincent.cli import main
from fedincent.config.compose import compose
from fedincent.results.compare import sparkline
from fedincent.results.report.collect import collect
from fedincent.runs.runner import run

SMALL = ["n_clients=6", "rounds=3", "model=logistic", "executor=serial", "eval_every=1"]
EVIL = "<script>alert(1)</script>"


@pytest.fixture
def three_runs(own_results: Path) -> Path:
    """IAFL, CGSV with a trace, and FedAvg, with their baseline."""
    for more in (["mechanism=iafl"], ["mechanism=cgsv", "trace=true"], ["mechanism=fedavg"]):
        run(compose([*SMALL, *more]))
    return own_results


def data_of(page: Path) -> dict:
    """The JSON in a page."""
    text = page.read_text(encoding="utf-8")
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, flags=re.S)
    assert block
    return json.loads(block.group(1))


def test_everything_is_there(three_runs: Path) -> None:
    main(["report"])
    data = data_of(three_runs / "report.html")
    assert {r["choices"]["mechanism"] for r in data["runs"]} == {"standalone", "iafl", "cgsv", "fedavg"}
    assert data["damaged"] == [] and data["unfinished"] == []
    cgsv = next(r for r in data["runs"] if r["choices"]["mechanism"] == "cgsv")
    assert cgsv["reward_label"].startswith("share") and len(cgsv["clients"]["reward"]) == 6
    assert cgsv["curve"]["what"] == "accuracy" and len(cgsv["curve"]["low"]) == 3
    assert len(cgsv["partition"]) == 6 and sum(map(sum, cgsv["partition"])) == 1437
    page = (three_runs / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="https?:', page)  # self-contained


def test_the_command_asks_for_the_very_run(three_runs: Path) -> None:
    for described in collect(three_runs)["runs"]:
        words = described["command"].split()[2:]
        again = run(compose([*words, "executor=serial"]))
        assert again.path.name == described["name"]


def test_damaged_and_unfinished_runs_are_listed(three_runs: Path) -> None:
    folders = sorted((three_runs / "runs").iterdir())
    (folders[0] / "summary.json").write_text("{")
    (folders[1] / "clients.csv").write_text("nonsense")
    (folders[2] / "summary.json").unlink()
    data = collect(three_runs)
    assert {d["path"] for d in data["damaged"]} == {folders[0].name, folders[1].name}
    assert data["unfinished"] == [folders[2].name] and len(data["runs"]) == 1


def test_no_text_of_a_run_becomes_markup(three_runs: Path) -> None:
    folder = next(path for path in (three_runs / "runs").iterdir() if path.name.startswith("iafl"))
    poison(folder)
    main(["report", "--output", "page.html"])
    text = Path("page.html").read_text(encoding="utf-8")
    assert "alert(1)" in text and EVIL not in text


def poison(folder: Path) -> None:
    """Put a script into a run's name, its choices and its configuration."""
    summary = json.loads((folder / "summary.json").read_text())
    summary["choices"]["mechanism"] = EVIL
    summary["notes"] = [EVIL]
    (folder / "summary.json").write_text(json.dumps(summary))
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["logger"]["name"] = EVIL
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def test_an_empty_folder_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["report", "--results", str(tmp_path / "nothing")])
    assert "there are no runs" in capsys.readouterr().err


def test_compare(three_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["compare", "iafl-digits", "cgsv-digits", "fedavg-digits"])
    out = capsys.readouterr().out
    assert "IPR (accuracy)" in out and "C − A:" in out and "accuracy over rounds" in out and "of 6 clients" in out
    for wrong, words in ((["iafl-digits"], "two runs"), (["iafl-digits", "x"], "no such finished run")):
        with pytest.raises(SystemExit) as ended:
            main(["compare", *wrong])
        assert ended.value.code == 2 and words in capsys.readouterr().err


def test_sparkline() -> None:
    assert sparkline([0, 1, 2, 7]) == "▁▂▃█" and sparkline([3, 3]) == "▁▁" and sparkline([float("nan")]) == "–"
    assert len(sparkline(range(500))) == 40


@pytest.fixture(scope="session")
def browser():  # type: ignore[no-untyped-def]
    """Headless Chromium with a log of its console; a test that needs it says that it was not run where there is none."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("not run: chromium and chromedriver are not installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
    ):
        options.add_argument(f"--{flag}")
    for flag in ("disable-component-update", "disable-sync", "force-color-profile=srgb", "disable-dev-shm-usage"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


def opened(browser, page: Path, width: int):  # type: ignore[no-untyped-def]
    """Open a page from disk at a width; the console must stay empty."""
    screen = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}  # a window cannot be as narrow
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get(page.resolve().as_uri())
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def sticking_out(browser) -> list[str]:  # type: ignore[no-untyped-def]
    """What makes the page wider than its window, if anything."""
    return browser.execute_script(
        "const wide = document.documentElement.clientWidth + 1;"
        "if (document.documentElement.scrollWidth <= wide) return [];"
        "return [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > wide)"
        ".map(e => e.tagName + '.' + e.className + '#' + e.id).slice(0, 9);"
    )


@pytest.mark.browser
def test_the_page_in_a_browser(browser, three_runs: Path) -> None:  # type: ignore[no-untyped-def]
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    poison(next(path for path in (three_runs / "runs").iterdir() if path.name.startswith("iafl")))
    main(["report"])
    for width in (390, 1400):
        opened(browser, three_runs / "report.html", width)
        assert sticking_out(browser) == [], f"at {width} px"
        assert len(browser.find_elements(By.CSS_SELECTOR, "#run-list tbody tr")) == 4
        assert browser.find_elements(By.TAG_NAME, "script")[-1].get_attribute("innerHTML").startswith('"use strict"')
    assert len(browser.find_elements(By.CSS_SELECTOR, "#run-view svg")) == 4

    column = [th.text for th in browser.find_elements(By.CSS_SELECTOR, "#run-list th")]
    place = next(k for k, text in enumerate(column) if text.startswith("mean accuracy"))
    button = browser.find_elements(By.CSS_SELECTOR, "#run-list th button")[place]
    orders = []
    for _ in range(2):
        browser.execute_script("arguments[0].click()", button)
        cells = browser.find_elements(By.CSS_SELECTOR, f"#run-list tbody td:nth-child({place + 1})")
        orders.append([float(cell.text) for cell in cells])
    assert orders[0] == sorted(orders[0], reverse=True) and orders[1] == sorted(orders[1])

    mark = browser.find_element(By.CSS_SELECTOR, "#run-view svg circle.mark")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", mark)
    ActionChains(browser).move_to_element(mark).perform()
    tip = browser.find_element(By.ID, "tip")
    assert tip.is_displayed() and "alone" in tip.text and "%" in tip.text

    before = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    browser.execute_script("arguments[0].click()", browser.find_element(By.ID, "theme"))
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") != before

    box = browser.find_element(By.ID, "run-filter")
    box.send_keys("fedavg")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#run-list tbody tr")) == 1
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.browser
def test_five_hundred_runs_open_in_two_seconds(browser, three_runs: Path) -> None:  # type: ignore[no-untyped-def]
    """The time to the end of the script, as the browser itself measures it."""
    from fedincent.results.report import as_text, page

    data = collect(three_runs)
    data["runs"] = [{**run, "name": f"{run['name']}-{k}", "seed": k} for k in range(125) for run in data["runs"]]
    Path("many.html").write_text(page(as_text(data)), encoding="utf-8")
    opened(browser, Path("many.html"), 1400)
    spent = browser.execute_script("return performance.timing.loadEventEnd - performance.timing.navigationStart")
    assert len(browser.find_elements("css selector", "#run-list tbody tr")) == 500
    assert 0 < spent < 2000, f"{spent} ms"
