"""Pictures of the page, to look at and for the book."""

import re

from playwright.sync_api import expect

from browser import Tab
from cases import LYRICS


def draw(chrome, server, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for theme in ("light", "dark"):
        context = chrome.new_context(color_scheme=theme)
        tab = Tab(context, server, height=860)
        page = tab.page
        if theme == "light":
            page.screenshot(path=folder / "empty.png")
            tab.make("fail loudly")
            expect(tab.card("fail loudly")).to_be_visible()
            tab.make("bright synth pop with a big chorus", LYRICS)
            expect(tab.card(re.compile("synth"))).to_be_visible()
            tab.make("picture of a quiet harbour, felt piano and tape hiss", LYRICS, duration=24, batch_size=2)
            expect(tab.card(re.compile("harbour"))).to_be_visible()
            page.get_by_role("button", name="Back to the defaults").click()
            page.locator("form.make details.more summary").click()
            job = tab.jobs()[0]
            title = {"title": "Harbour at night", "liked": True, "tags": ["piano", "calm"]}
            page.evaluate("([id, marks]) => fetch(`v1/jobs/${id}`, { method: 'PATCH', body: JSON.stringify(marks), headers: { 'Content-Type': 'application/json' } })", [job["id"], title])
        expect(tab.card("Harbour at night")).to_be_visible()
        card = tab.card("Harbour at night")
        card.get_by_role("button", name="Open Harbour at night, version 1").click()
        card.locator(".wave canvas").first.wait_for()
        card.get_by_role("button", name="Light in the hall").click()
        tab.make("slow choir in a stone church", "[verse]\nLux")
        tab.make("slow jazz trio, brushes and upright bass", "[verse]\nOne more time")
        page.evaluate("scrollTo(0, 0)")
        page.get_by_text(re.compile("step [2-5] of 8")).first.wait_for()
        page.mouse.move(0, 0)
        page.screenshot(path=folder / f"{theme}.png")
        page.get_by_role("button", name="Cancel slow jazz trio, brushes and upright bass").click()
        card.get_by_role("button", name="Change a part, extend, new words").click()
        box = card.locator(".wave").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 40, steps=6)
        page.mouse.up()
        card.locator("summary", has_text="Details").click()
        page.locator("form.make details.more summary").click()
        page.screenshot(path=folder / f"{theme}-all.png", full_page=True)
        page.set_viewport_size({"width": 360, "height": 740})
        page.screenshot(path=folder / f"{theme}-phone.png")
        card.locator(".wave").scroll_into_view_if_needed()
        page.screenshot(path=folder / f"{theme}-phone-card.png")
        context.close()
