// Several engines behind one address: which one the page shows, and what is wrong with the others.

import { ask, fleet } from "./api.js";
import { make } from "./shared.js";

const PERIOD = 3000;

// Does nothing for a single engine. `onChoice` lets the stream begin again.
export async function watchFleet(find, onChoice) {
  const menu = find("replica"), problems = find("fleet");
  while (true) {
    try {
      const { replicas, message = "" } = await ask("health");
      if (!replicas) return;
      const names = Object.keys(replicas);
      if (menu.options.length !== names.length) {
        menu.replaceChildren(...names.map((name) => make("option", { value: name, textContent: `engine ${name}` })));
        menu.parentElement.hidden = false;
        menu.onchange = () => { fleet.engine = menu.value; onChoice(); };
        fleet.engine ||= names[0];
      }
      problems.textContent = message;
    } catch (error) {
      if (!fleet.engine) return;
      problems.textContent = error.message;
    }
    problems.hidden = !problems.textContent;
    await new Promise((resolve) => { setTimeout(resolve, PERIOD); });
  }
}
