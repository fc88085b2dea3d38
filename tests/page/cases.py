"""The cases. Each gets a context of the browser and a server; its name is a sentence."""

import re
import time
import wave

from playwright.sync_api import expect

from browser import Program, Server, Tab

# A busy machine may need long.
expect.set_options(timeout=120_000)

CASES = []
LYRICS = "[verse]\nRain on the window\nLight in the hall\n[chorus]\nStay a while"


def case(test):
    CASES.append(test)
    return test


@case
def a_song_is_made_played_and_fetched(context, server):
    tab = Tab(context, server)
    page = tab.page
    assert page.get_by_label("Steps").get_attribute("placeholder") == "8", "the checkpoint's own"
    page.locator("#song-lyrics").fill("")
    page.get_by_role("button", name="[verse]").click()
    page.keyboard.type("Rain")
    expect(page.locator("#song-lyrics")).to_have_value("[verse]\nRain")
    tab.make("picture of rain", LYRICS, duration=12, batch_size=2)
    card = tab.card("picture of rain")
    card.get_by_role("button", name="Play picture of rain, version 1").click()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    # The lines light up in time, and a line seeks.
    line = card.get_by_role("button", name="Stay a while")
    line.click()
    expect(line).to_have_attribute("aria-current", "true")
    page.get_by_role("button", name="Pause", exact=True).click()
    # The waveform is drawn, from the points that the server made.
    assert card.locator(".wave").evaluate(
        "(box) => box.firstChild.shadowRoot.querySelectorAll('canvas').length") >= 1
    # A click on the waveform seeks.
    box = card.locator(".wave").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + 40)
    expect(card.locator(".wave")).to_have_attribute("aria-valuenow", re.compile("^[567]$"))
    card.locator("summary", has_text="Details").click()
    with page.expect_download() as download:
        card.get_by_role("link", name="1.wav").click()
    with wave.open(str(download.value.path())) as sound:
        assert sound.getnframes() == 12 * 48000
    expect(card.get_by_text("inference_steps")).to_be_visible()
    tab.end()


@case
def a_fresh_machine_makes_a_song(context, _server):
    server = Program()
    try:
        tab = Tab(context, server)
        page = tab.page
        expect(page.get_by_text("Songs are made with demo, the model inside the program.")).to_be_visible()
        expect(page.get_by_text("acestep model pull turbo")).to_be_visible()
        expect(page.get_by_text("No speech model is here, so speech is noise.")).to_be_visible()
        tab.make("calm piano", duration=5, inference_steps=4)
        card = tab.card("calm piano")
        card.get_by_role("button", name="Play calm piano").click()
        expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
        card.locator("summary", has_text="Details").click()
        with page.expect_download() as download:
            card.get_by_role("link", name="1.wav").click()
        with wave.open(str(download.value.path())) as sound:
            assert (sound.getnframes(), sound.getnchannels()) == (5 * 48000, 2)
            assert any(sound.readframes(48000)), "the song is silent"
        tab.end()
    finally:
        server.end()


@case
def every_key_of_a_request_can_be_written(context, server):
    tab = Tab(context, server)
    page = tab.page
    page.get_by_label("Describe the song").fill("other keys")
    page.locator("form.make details.more summary").click()
    before = tab.jobs()
    page.locator("#song-other").fill('{"lm_temperature": ')
    assert not page.locator("#song-other").evaluate("(field) => field.validity.valid")
    page.get_by_role("button", name="Make the song").click()
    assert tab.jobs() == before, "a form that is wrong was sent"
    tab.make("other keys", other='{"lm_temperature": 0.5, "lrc": true}')
    expect(tab.card("other keys")).to_be_visible()
    request = tab.jobs()[0]["request"]
    assert (request["lm_temperature"], request["lrc"]) == (0.5, True), request
    # They come back with the other settings of the song.
    page.locator("#song-other").fill("")
    tab.card("other keys").locator("summary", has_text="Details").click()
    tab.card("other keys").get_by_role("button", name="Use its words and settings").click()
    expect(page.locator("#song-other")).to_have_value('{"lm_temperature":0.5,"lrc":true}')
    tab.end()


@case
def a_song_is_heard_while_it_is_made_and_goes_on_as_its_file(context, server):
    tab = Tab(context, server)
    page = tab.page
    tab.make("heard tide", duration=8)
    listen = page.get_by_role("button", name="Listen to heard tide")
    listen.click()
    # It sounds while its job runs.
    expect(listen).to_have_text(re.compile("^Listening, 0:0[12]$"))
    assert tab.jobs()[0]["state"] == "running"
    # The file goes on where the ear is: after four seconds of work, of eight of sound.
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    assert tab.jobs()[0]["state"] == "done"
    position = page.get_by_role("slider", name="Position")
    seconds = float(position.input_value())
    assert 1 < seconds < 7, seconds
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible(timeout=120_000)
    # A listener who stops hears nothing more, and the job goes on.
    tab.make("heard again", duration=8)
    listen = page.get_by_role("button", name="Listen to heard again")
    listen.click()
    expect(listen).to_have_text(re.compile("^Listening"))
    listen.click()
    expect(listen).to_have_text("Listen")
    expect(tab.card("heard again")).to_be_visible()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_have_count(0)
    tab.end()


@case
def speech_is_heard_while_it_is_made(context, server):
    tab = Tab(context, server)
    page = tab.page
    page.get_by_role("tab", name="Speech").click()
    page.get_by_label("Text").fill("slow words are heard")
    page.get_by_role("button", name="Speak", exact=True).click()
    listen = page.get_by_role("button", name="Listen to slow words are heard")
    listen.click()
    expect(listen).to_have_text(re.compile("^Listening, 0:0[01]$"))
    expect(tab.card("slow words are heard")).to_be_visible()
    # Its file is in the player.
    expect(page.get_by_role("slider", name="Position")).to_have_attribute("max", "1")
    tab.end()


@case
def keys_play_as_in_any_player(context, server):
    tab = Tab(context, server)
    page = tab.page
    tab.make("bright keys", duration=30)
    tab.card("bright keys").get_by_role("button", name="Open bright keys").click()
    wave_form = tab.card("bright keys").get_by_role("slider", name="Position in the song")
    expect(wave_form).to_have_attribute("aria-valuemax", "30")
    # Without points of the server the browser decodes the file.
    expect(wave_form.locator("canvas").first).to_be_visible()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    page.keyboard.press("Space")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(wave_form).to_have_attribute("aria-valuenow", "10")
    page.keyboard.press("ArrowLeft")
    expect(wave_form).to_have_attribute("aria-valuenow", "5")
    # A field keeps its keys.
    page.get_by_label("Describe the song").fill("a")
    page.keyboard.press("Space")
    expect(page.get_by_label("Describe the song")).to_have_value("a ")
    tab.end()


@case
def a_reload_in_the_middle_loses_nothing(context, server):
    tab = Tab(context, server)
    tab.make("slow reload")
    tab.page.get_by_text(re.compile("step [1-8] of 8")).first.wait_for()
    tab.page.reload()
    expect(tab.page.get_by_label("Describe the song")).to_have_value("slow reload")
    expect(tab.page.get_by_role("progressbar", name="Progress of slow reload")).to_be_visible()
    expect(tab.card("slow reload")).to_be_visible()
    tab.end()


@case
def two_tabs_show_the_same(context, server):
    first, second = Tab(context, server), Tab(context, server)
    # The first tab is in front, so that its clicks need not wait for a frame.
    first.page.bring_to_front()
    first.make("tabs")
    expect(second.card("tabs")).to_be_visible()
    card = first.card("tabs")
    card.get_by_role("button", name="Like tabs").click()
    card.get_by_role("button", name="Rename tabs").click()
    first.page.get_by_label("Title").fill("Two tabs")
    first.page.keyboard.press("Enter")
    other = second.card("Two tabs")
    expect(other.get_by_role("button", name="Like Two tabs")).to_have_attribute("aria-pressed", "true")
    card = first.card("Two tabs")
    card.locator("summary", has_text="Details").click()
    card.get_by_label("Tags").fill("demo, <b>bold</b>")
    card.get_by_role("button", name="Keep").click()
    expect(other.get_by_text("<b>bold</b>")).to_be_visible()
    card.get_by_role("button", name="Delete Two tabs").click()
    expect(other).to_have_count(0)
    first.page.get_by_role("button", name="Undo").click()
    expect(other).to_be_visible()
    # The focus comes back with the card.
    expect(card.locator("button:focus")).to_have_count(1)
    first.end()
    second.end()


@case
def a_job_is_cancelled_while_it_waits_and_while_it_runs(context, server):
    tab = Tab(context, server)
    page = tab.page
    tab.make("slow one")
    tab.make("slow two")
    expect(page.get_by_text("Next in the queue")).to_be_visible()
    page.get_by_role("button", name="Cancel slow two").click()
    expect(tab.card("slow two").get_by_text("Cancelled")).to_be_visible()
    page.get_by_role("button", name="Cancel slow one").focus()
    page.keyboard.press("Enter")
    expect(tab.card("slow one").get_by_text("Cancelled")).to_be_visible()
    # The focus goes with the card.
    expect(tab.card("slow one").locator("button:focus")).to_have_count(1)
    tab.card("slow one").get_by_role("button", name="Try again: slow one").click()
    expect(tab.card("slow one").get_by_role("button", name="Play slow one")).to_be_visible()
    tab.make("fail")
    expect(tab.card("fail").get_by_text("the caption says so")).to_be_visible()
    tab.end()


def last_request(tab):
    return tab.jobs()[0]["request"]


@case
def a_part_is_chosen_by_mouse_by_keys_and_by_fields(context, server):
    tab = Tab(context, server)
    page = tab.page
    tab.make("picture part", LYRICS, duration=20)
    card = tab.card("picture part")
    card.get_by_role("button", name="Open picture part").click()
    wave_form = card.locator(".wave")
    wave_form.locator("canvas").first.wait_for()
    box = wave_form.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 40, steps=4)
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40, steps=4)
    page.mouse.up()
    start, end = card.get_by_label("From (s)"), card.get_by_label("To (s)")
    assert abs(float(start.input_value()) - 5) < 0.3 and abs(float(end.input_value()) - 10) < 0.3
    # By keys: both ends at the position, then the end a second later.
    wave_form.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("[")
    expect(start).to_have_value("5")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("]")
    expect(end).to_have_value("10")
    page.keyboard.press("Shift+ArrowRight")
    expect(end).to_have_value("11")
    # By fields, and the words of the part.
    start.fill("6.5")
    card.get_by_label("Words").fill("Another line")
    card.get_by_role("button", name="Make it").click()
    expect(tab.card("picture part, a new part")).to_be_visible()
    request = last_request(tab)
    assert request["task_type"] == "repaint" and request["lyrics"] == "Another line", request
    assert (request["repainting_start"], request["repainting_end"]) == (6.5, 11), request
    assert len(request["src_audio"]) == 36 and "duration" not in request, request
    card.get_by_role("button", name="Extend the end").click()
    card.get_by_label("Seconds").fill("10")
    card.get_by_role("button", name="Make it").click()
    expect(tab.card("picture part, longer")).to_be_visible()
    request = last_request(tab)
    assert (request["repainting_start"], request["repainting_end"]) == (20, 30), request
    tab.end()


@case
def two_versions_are_compared_at_equal_loudness(context, server):
    tab = Tab(context, server)
    page = tab.page
    tab.make("pair", duration=5, batch_size=2)
    card = tab.card("pair")
    card.get_by_role("button", name="Compare pair, version 1").click()
    card.get_by_role("button", name="Compare pair, version 2").click()
    bar = page.get_by_role("region", name="Comparison")
    # The second is half as loud, so the first gets 6 dB less.
    expect(bar.get_by_text("-6.0 dB")).to_be_visible()
    bar.get_by_role("button", name="Play the comparison").click()
    bar.get_by_role("button", name=re.compile("^B ")).click()
    expect(bar.get_by_role("button", name=re.compile("^B "))).to_have_attribute("aria-pressed", "true")
    bar.get_by_role("button", name="End the comparison").click()
    # The same again has another seed: none is asked for.
    tab.make("seeded", seed=5)
    tab.card("seeded").get_by_role("button", name="Same again: seeded").click()
    expect(tab.card("seeded")).to_have_count(2)
    assert "seed" not in last_request(tab)
    tab.end()


@case
def a_server_that_was_killed_comes_back_with_all_songs(context, _server):
    server = Server()
    try:
        tab = Tab(context, server)
        tab.make("before")
        expect(tab.card("before")).to_be_visible()
        tab.make("slow survivor")
        tab.page.get_by_text(re.compile("step [1-8] of 8")).first.wait_for()
        server.kill()
        expect(tab.page.get_by_text("The server does not answer")).to_be_visible()
        server.start()
        expect(tab.page.get_by_text("Ready")).to_be_visible()
        expect(tab.card("before")).to_be_visible()
        # The lease of the killed worker ends, and the job is made again.
        expect(tab.card("slow survivor")).to_be_visible(timeout=120_000)
        tab.end()
    finally:
        server.end()


@case
def words_stay_while_the_connection_is_lost(context, server):
    tab = Tab(context, server)
    page = tab.page
    tab.make("before the loss")
    expect(tab.card("before the loss")).to_be_visible()
    context.set_offline(True)
    expect(page.get_by_text("The server does not answer").first).to_be_visible()
    tab.make("after the loss")
    expect(page.locator("form.make .wrong")).to_contain_text("does not answer")
    expect(tab.card("before the loss")).to_be_visible()
    context.set_offline(False)
    expect(page.get_by_text("Ready")).to_be_visible()
    expect(page.get_by_label("Describe the song")).to_have_value("after the loss")
    page.get_by_role("button", name="Make the song").click()
    expect(tab.card("after the loss")).to_be_visible()
    tab.end()


@case
def a_file_is_covered_and_a_refused_one_is_explained(context, server):
    tab = Tab(context, server)
    page = tab.page
    chooser = page.get_by_label("Choose a sound file")
    chooser.set_input_files({"name": "empty.wav", "mimeType": "audio/wav", "buffer": b""})
    expect(page.locator(".toast")).to_have_text("empty.wav was refused: the file is empty")
    sound = b"RIFF" + bytes(5000)
    page.evaluate("""(bytes) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], "tune.wav", { type: "audio/wav" }));
        for (const name of ["dragover", "drop"]) {
            const options = { dataTransfer: data, bubbles: true, cancelable: true };
            document.body.dispatchEvent(new DragEvent(name, options));
        }
    }""", list(sound))
    group = page.get_by_role("group", name="Source")
    expect(group.get_by_role("button", name="Cover")).to_have_attribute("aria-pressed", "true")
    group.get_by_label("Closeness").fill("0.6")
    tab.make("bossa nova")
    expect(tab.card("bossa nova")).to_be_visible()
    request = last_request(tab)
    assert request["task_type"] == "cover" and len(request["src_audio"]) == 36, request
    assert request["audio_cover_strength"] == 0.6, request
    group.get_by_role("button", name="Reference").click()
    tab.make("with a reference")
    expect(tab.card("with a reference")).to_be_visible()
    request = last_request(tab)
    assert len(request["reference_audio"]) == 1 and "audio_cover_strength" not in request, request
    group.get_by_role("button", name="Understand").click()
    expect(tab.card("About tune.wav")).to_be_visible()
    assert tab.jobs()[0]["kind"] == "understand"
    page.get_by_role("button", name="Remove tune.wav").click()
    expect(chooser).to_be_focused()
    # A wrong value: the reason stands by the form, and its field has the focus.
    tab.make("wrong", seed="five")
    expect(page.locator("form.make .wrong")).to_contain_text("seed")
    expect(page.locator("#song-seed")).to_be_focused()
    tab.end()


@case
def an_upload_shows_how_far_it_is(context, server):
    tab = Tab(context, server)
    page = tab.page
    network = context.new_cdp_session(page)
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 500_000}
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", slow)
    sound = {"name": "large.wav", "mimeType": "audio/wav", "buffer": b"RIFF" + bytes(2_000_000)}
    page.get_by_label("Choose a sound file").set_input_files(sound)
    bar = page.get_by_role("progressbar", name="Sending large.wav")
    expect(bar).to_be_visible()
    group, parts = page.get_by_role("group", name="Source"), []
    for _ in range(2400):
        if group.count():
            break
        parts += page.evaluate("[...document.querySelectorAll('.sending progress')].map((bar) => bar.value / bar.max)")
        time.sleep(0.05)
    assert any(0 < part < 1 for part in parts) and parts == sorted(parts), parts
    expect(bar).to_have_count(0)
    tab.end()


@case
def a_crowd_of_jobs_hides_neither_the_one_that_runs_nor_those_that_ended(context, _server):
    server = Server()
    try:
        tab = Tab(context, server)
        page = tab.page
        tab.make("early bird")
        expect(tab.card("early bird")).to_be_visible()
        tab.make("gate keeper")
        bar = page.get_by_role("progressbar", name="Progress of gate keeper")
        expect(bar).to_be_visible()
        page.evaluate("""async () => {
            const body = JSON.stringify({ request: { caption: "crowd" } });
            for (let n = 0; n < 60; n++) await fetch("v1/jobs", { method: "POST", body });
        }""")
        page.reload()
        expect(page.locator(".queue li.card")).to_have_count(61)
        expect(bar).to_be_visible()
        expect(tab.card("early bird")).to_be_visible()
        tab.end()
    finally:
        server.end()


@case
def speech_is_made_with_a_voice_of_the_server(context, server):
    tab = Tab(context, server)
    page = tab.page
    page.get_by_role("tab", name="Song").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_label("Text").fill("Good morning")
    page.get_by_role("combobox", name="Voice").select_option("vivian")
    page.get_by_role("combobox", name="Language").select_option("english")
    page.get_by_label("Manner").fill("calm")
    page.get_by_role("button", name="Speak", exact=True).click()
    expect(tab.card("Good morning")).to_be_visible()
    wanted = {"text": "Good morning", "voice": "vivian", "language": "english", "instruct": "calm"}
    assert last_request(tab) == wanted
    tab.end()


@case
def speech_has_the_fields_of_its_model(context, server):
    tab = Tab(context, server)
    page = tab.page
    page.get_by_role("tab", name="Speech").click()
    expect(page.get_by_label("Manner")).to_be_visible()
    # The language of a text without one is that of the model.
    languages = page.get_by_role("combobox", name="Language", exact=True).locator("option")
    expect(languages.first).to_have_text("english (default)")
    expect(page.get_by_label("Recording of speaker 1")).to_have_count(0)
    page.get_by_role("combobox", name="Model").select_option("tiny-talk")
    for label in ["Manner", "Voice", "Language", "Recording, a few seconds of one voice"]:
        expect(page.get_by_label(label, exact=True)).to_have_count(0)
    page.get_by_label("Text").fill("[S1] Really? [S2] Really.")
    page.get_by_text("The voices of two recordings").click()
    recording = {"name": "a.wav", "mimeType": "audio/wav", "buffer": b"RIFF"}
    words = {"name": "a.json", "mimeType": "application/json", "buffer": b"[]"}
    page.get_by_label("Recording of speaker 1").set_input_files(recording)
    page.get_by_label("Its words with their times, JSON of an aligner").first.set_input_files(words)
    table = {"name": "pinyin.txt", "mimeType": "text/plain", "buffer": b"U+4E2D: zh\xc5\x8dng\n"}
    page.get_by_label("Table of Chinese syllables").set_input_files(table)
    page.get_by_text("More settings").click()
    page.get_by_label("Guidance").fill("6")
    page.get_by_label("Format").select_option("wav24")
    page.get_by_label("Play it while it is made").check()
    page.get_by_role("button", name="Speak", exact=True).click()
    expect(tab.card("[S1] Really? [S2] Really.")).to_be_visible()
    # It was heard, and its file is in the player.
    expect(page.get_by_role("slider", name="Position")).to_have_attribute("max", "1")
    made = last_request(tab)
    assert made["model"] == "tiny-talk" and made["cfg_scale"] == 6, made
    assert set(made) == {"text", "model", "cfg_scale", "audio_format", "speaker_1", "words_1", "pinyin"}, made
    tab.end()


@case
def phonemes_and_words_of_japanese_stand_in_place_of_a_text(context, server):
    tab = Tab(context, server)
    page = tab.page
    page.get_by_role("tab", name="Speech").click()
    expect(page.get_by_label("Phonemes in place of the words")).to_have_count(0)
    page.get_by_role("combobox", name="Model").select_option("tiny-talk")
    speak = page.get_by_role("button", name="Speak", exact=True)
    expect(speak).to_be_disabled()
    page.get_by_label("Phonemes in place of the words").fill("həˈloʊ")
    page.get_by_text("More settings").click()
    page.get_by_label("Most frames of a sentence").fill("40")
    page.get_by_label("Exact prior").check()
    speak.click()
    expect(tab.card("Speech")).to_be_visible()
    wanted = {"model": "tiny-talk", "phonemes": "həˈloʊ", "max_decoder_steps": 40, "exact_prior": True}
    assert last_request(tab) == wanted
    page.get_by_label("Phonemes in place of the words").fill("")
    expect(speak).to_be_disabled()
    words = {"name": "words.json", "mimeType": "application/json", "buffer": b"[]"}
    page.get_by_label("Words of OpenJTalk").set_input_files(words)
    speak.click()
    expect(page.get_by_role("heading", name="Speech", exact=True)).to_have_count(2)
    assert set(last_request(tab)) == {"model", "open_jtalk", "max_decoder_steps", "exact_prior"}
    tab.end()


@case
def a_voice_is_kept_under_a_name_and_removed(context, server):
    tab = Tab(context, server)
    page = tab.page
    page.get_by_role("tab", name="Speech").click()
    page.get_by_text("The voice of a recording").click()
    keep = page.get_by_role("button", name="Keep the voice")
    page.get_by_label("Keep this voice as").fill("ann")
    expect(keep).to_be_disabled()
    recording = {"name": "a.wav", "mimeType": "audio/wav", "buffer": b"RIFF"}
    page.get_by_label("Recording, a few seconds of one voice").set_input_files(recording)
    page.get_by_label("Its words").fill("my words")
    page.get_by_label("Keep this voice as").press("Enter")
    card = tab.card("Voice ann")
    expect(card).to_contain_text("Kept voice")
    expect(card).to_contain_text("tiny-speech")
    made = last_request(tab)
    assert {key: made[key] for key in ("name", "model", "transcript")} == {
        "name": "ann", "model": "tiny-speech", "transcript": "my words"}, made
    assert set(made) == {"name", "model", "transcript", "reference"}, made
    # Only a kept voice can be removed.
    voice = page.get_by_role("combobox", name="Voice")
    voice.select_option("vivian")
    expect(page.get_by_role("button", name="Remove the voice")).to_have_count(0)
    voice.select_option("me")
    page.get_by_role("button", name="Remove the voice me").click()
    expect(page.get_by_text("The voice me is removed.").first).to_be_visible()
    expect(voice).to_have_value("")
    tab.end()


@case
def a_server_with_a_key_asks_for_it_once(context, _server):
    server = Server(key="secret")
    try:
        page = context.new_page()
        page.goto(server.url)
        page.get_by_label("Key").fill("wrong")
        page.get_by_role("button", name="Go in").click()
        expect(page.get_by_text("the key is not known")).to_be_visible()
        page.get_by_label("Key").fill("secret")
        page.get_by_role("button", name="Go in").click()
        expect(page.get_by_text("Ready")).to_be_visible()
        page.reload()
        expect(page.get_by_label("Describe the song")).to_be_visible()
    finally:
        server.end()


@case
def markup_of_a_prompt_is_text(context, server):
    tab = Tab(context, server)
    tab.make("<img src=x onerror=alert(1)>")
    expect(tab.card("<img src=x onerror=alert(1)>")).to_be_visible()
    assert tab.page.locator(".card img").count() == 0
    tab.end()


def is_within(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@case
def nothing_is_wider_than_a_phone_or_a_zoomed_window(context, server):
    tab = Tab(context, server, width=320, height=640)
    page = tab.page
    tab.make("picture phone with many words in its description that go on and on", LYRICS, duration=9)
    card = tab.card(re.compile("picture phone"))
    card.get_by_role("button", name=re.compile("^Play")).click()
    card.get_by_role("button", name="Change a part, extend, new words").click()
    card.locator("summary", has_text="Details").click()
    assert is_within(page), "320 px"
    # 200 % zoom of a window of 1280 pixels has 640 of them.
    page.set_viewport_size({"width": 640, "height": 450})
    time.sleep(0.2)
    assert is_within(page), "200 %"
    page.get_by_role("button", name="Make the song").scroll_into_view_if_needed()
    tab.end()


@case
def axe_finds_nothing_in_dark_and_light(context, server, axe=None):
    for theme in ("light", "dark"):
        tab = Tab(context, server)
        page = tab.page
        page.emulate_media(color_scheme=theme)
        tab.make(f"picture {theme}", LYRICS, duration=9, batch_size=2)
        card = tab.card(f"picture {theme}")
        card.get_by_role("button", name=f"Open picture {theme}, version 1").click()
        card.get_by_role("button", name="Change a part, extend, new words").click()
        card.locator("summary", has_text="Details").click()
        tab.make("fail")
        expect(tab.card("fail").first).to_be_visible()
        tab.make("slow axe")
        page.get_by_role("progressbar").first.wait_for()
        # As a string in the page's own world: the policy forbids inline scripts.
        page.evaluate(axe.read_text())
        found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
        told = [(one["id"], one["help"], [node["target"] for node in one["nodes"]][:3]) for one in found]
        assert not told, told
        tab.end()
