// From disk a browser starts no workers. There the search's runs in a frame of the page, and is spoken to as a worker is.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.room = frame.contentWindow;
      this.room.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.room.document.createElement("script");
      script.src = address;
      this.isThere = new Promise((resolve) => (script.onload = resolve));
      this.room.document.body.append(script);
    }
    postMessage(data) {
      this.isThere.then(() => this.room.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.room.frameElement.remove();
    }
  };
}
