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
