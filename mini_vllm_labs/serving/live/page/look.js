// What the page looks at: told to the server one change at a time, the newest one while another is on its way.

import { ask } from "./api.js";

export class Look {
  constructor(connection, onError) {
    Object.assign(this, { connection, onError, step: null, follow: "", with_text: false });
    this.size = { width: 720, height: 480 };
    this.isSending = false;
    this.isStale = false;
  }

  set(changes) {
    Object.assign(this, changes);
    this.send();
  }

  async send() {
    this.isStale = true;
    if (this.isSending) return;
    this.isSending = true;
    while (this.isStale && this.connection.viewer) {
      this.isStale = false;
      const { step, follow, with_text, size, connection: { viewer } } = this;
      try {
        await ask("live/look", { viewer, step, follow, with_text, ...size });
      } catch (error) {
        if (error.code !== "page_not_open") this.onError(error);
      }
    }
    this.isSending = false;
  }
}
