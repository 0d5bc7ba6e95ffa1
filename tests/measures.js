// What tests measure in a page: see `measure` in chromium.py.
const measures = {
  // The colour of the paper beside the digit, in a screenshot of the first picture.
  paper: async (screenshot) => { const image = new Image();
    image.src = "data:image/png;base64," + screenshot;
    await image.decode();
    const drawn = document.createElement("canvas").getContext("2d");
    drawn.drawImage(image, 0, 0);
    return drawn.getImageData(200, 5, 1, 1).data[0]; },

  // Every visible text as [words, left, top, right, bottom, whether it is cut], trimmed: a font's box is higher than its
  // letters.
  boxes: () => [...document.querySelectorAll("svg text")].filter((t) => t.textContent && t.getClientRects().length)
    .map((t) => { const box = t.getBoundingClientRect(), page = t.ownerSVGElement.getBoundingClientRect();
      const [left, top] = [box.left - page.left, box.top - page.top + 2.5];
      const [right, bottom] = [box.right - page.left, box.bottom - page.top - 2.5];
      return [t.textContent, left, top, right, bottom, left < 0 || right > page.width || bottom > page.height]; })
    .filter((t) => t[3] > t[1]),

  // The size in px of each text on the screen.
  sizes: () => [...document.querySelectorAll("svg text")].filter((text) => text.getClientRects().length)
    .map((text) => [text.textContent, parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a]),

  pace: async (speed) => { model.set("speed", speed);
    const seen = [], play = document.querySelector('[title^="play"]');
    model.on("change:step", () => seen.push(performance.now()));
    const start = performance.now();
    play.click();
    while (seen.length < 2) await new Promise((go) => setTimeout(go, 5));
    play.click();
    return [seen[0] - start, seen[1] - seen[0]]; },

  rings: () => { const seen = [];
    for (const one of document.querySelectorAll('button, select, input, textarea, summary, [tabindex="0"]')) {
      if (!one.offsetParent || one.disabled) continue;
      one.focus({ focusVisible: true });
      seen.push([one.id || one.className || one.tagName, getComputedStyle(one).outlineStyle]);
    }
    return seen; },

  smallTexts: () => [...document.querySelectorAll('body *')]
    .filter((one) => one.getClientRects().length)
    .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .filter((one) => !one.closest('.spoken') && parseFloat(getComputedStyle(one).fontSize) < 12)
    .map((one) => one.outerHTML.slice(0, 80)),
};
