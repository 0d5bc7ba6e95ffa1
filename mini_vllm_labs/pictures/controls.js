// Buttons and menus.

const SPEEDS = [0.5, 1, 2, 4];

function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function button(text, title, onclick) {
  const made = make("button", { type: "button", textContent: text, title, onclick });
  made.setAttribute("aria-label", title);
  return made;
}

function choice(title, choices, onchange) {
  const menu = make("select", { title, onchange: () => onchange(menu.value) });
  menu.setAttribute("aria-label", title);
  menu.append(...choices.map(([value, name]) => make("option", { value, textContent: name })));
  return menu;
}

function followMenu(choices, onchange) {
  return choice("follow a request or a block", [["", "follow ..."], ...choices], onchange);
}

function speedMenu(speed, onchange) {
  const speeds = [...new Set([...SPEEDS, speed])].sort((one, other) => one - other);
  return choice("speed of play", speeds.map((each) => [each, `speed ${each}`]), (value) => onchange(Number(value)));
}

// For a lecture: the widget alone on the screen, and its picture as a file.

const isAlone = (root) => document.fullscreenElement === root;

function lectureTools(root, svgOf) {
  const alone = button("full screen", "full screen", () => (isAlone(root) ? document.exitFullscreen() : root.requestFullscreen()));
  const save = choice("save the picture", [["", "save ..."], ["svg", "as SVG"], ["png", "as PNG"]], async (kind) => {
    save.value = "";
    if (kind) download(await fileOf(svgOf(), kind), `${svgOf().getAttribute("aria-label").split(".")[0]}.${kind}`);
  });
  return [alone, save];
}

// The picture as a file, in the colours that it has here: outside this page its variables have no values.
async function fileOf(svg, kind) {
  const copy = svg.cloneNode(true), style = getComputedStyle(svg);
  for (const name of ["ink", "faint", "paper", "panel", "rule", "alert"])
    copy.style.setProperty(`--mv-${name}`, style.getPropertyValue(`--mv-${name}`));
  copy.style.setProperty("color-scheme", style.colorScheme);
  const drawn = new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
  if (kind === "svg") return drawn;
  const image = new Image(), { width, height } = svg.viewBox.baseVal;
  image.src = URL.createObjectURL(drawn);
  await image.decode();
  const canvas = make("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}

function download(file, name) {
  const href = URL.createObjectURL(file);
  make("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}
