// Buttons and menus.

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
