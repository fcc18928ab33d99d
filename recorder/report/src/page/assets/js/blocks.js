// Blocks: columns of numbers, compressed with deflate and stored as base64 in their own elements. A block is unpacked
// when it is needed.

(() => {
  // A column, read from its start.
  class Column {
    constructor(bytes) {
      this.bytes = bytes;
      this.at = 0;
    }

    get more() {
      return this.at < this.bytes.length;
    }

    byte() {
      return this.bytes[this.at++];
    }

    // A varint: seven bits to a byte, the low ones first. Exact to 2^53.
    number() {
      let byte = this.bytes[this.at++];
      if (byte < 128) return byte;
      let value = byte - 128;
      let unit = 128;
      do {
        byte = this.bytes[this.at++];
        value += (byte & 127) * unit;
        unit *= 128;
      } while (byte > 127);
      return value;
    }

    // A number that may be negative: 0, 1, 2, 3 are 0, -1, 1, -2.
    signed() {
      const folded = this.number();
      return folded % 2 ? -(folded + 1) / 2 : folded / 2;
    }
  }

  let inflated = 0;

  async function bytes(number) {
    const text = document.getElementById(`block-${number}`).textContent;
    const packed = Uint8Array.fromBase64
      ? Uint8Array.fromBase64(text)
      : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    inflated += 1;
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // The columns of a block.
  async function columns(number) {
    const all = await bytes(number);
    const whole = new Column(all);
    const list = [];
    while (whole.more) {
      const length = whole.number();
      list.push(new Column(all.subarray(whole.at, whole.at + length)));
      whole.at += length;
    }
    return list;
  }

  // The texts of a column, with zero bytes between them.
  const texts = (column) => (column.more ? new TextDecoder().decode(column.bytes).split("\0") : []);

  fx.blocks = { columns, texts, inflated: () => inflated };
})();
