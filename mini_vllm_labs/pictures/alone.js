// The player in a page without a kernel: the model is here, and nothing is saved.

function modelOf(state) {
  const listeners = {};
  return {
    get: (name) => state[name],
    set: (name, value) => {
      if (state[name] === value) return;
      state[name] = value;
      for (const listener of listeners[`change:${name}`] ?? []) listener();
    },
    save_changes: () => {},
    on: (name, listener) => (listeners[name] ??= []).push(listener),
    off: () => {},
  };
}

export function alone(still, state, css) {
  const root = make("div");
  still.replaceChildren(make("style", { textContent: css }), root);
  render({ model: modelOf(state), el: root });
}
