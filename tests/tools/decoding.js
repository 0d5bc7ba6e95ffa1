// What a page of `test_film.py` reads back: the frames of a GIF, and the pixels of a PNG.
const pixelsOf = (image, width, height) => {
  const drawn = new OffscreenCanvas(width, height).getContext("2d");
  drawn.drawImage(image, 0, 0);
  return [...drawn.getImageData(0, 0, width, height).data];
};

const decoderOf = async (data) => {
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  const decoder = new ImageDecoder({ data: bytes, type: "image/gif" });
  await decoder.tracks.ready;
  return decoder;
};

// Calls `each` with every frame; a decoder holds the pixels of few frames at once.
const eachFrame = async (decoder, each) => {
  const found = [];
  for (let frameIndex = 0; frameIndex < decoder.tracks.selectedTrack.frameCount; frameIndex++) {
    const { image } = await decoder.decode({ frameIndex });
    found.push(each(image));
    image.close();
  }
  return found;
};

// Every frame of a small GIF as [milliseconds, bytes], and whether it repeats for ever.
window.framesOfGif = async (data) => {
  const decoder = await decoderOf(data);
  const frame = (image) => [image.duration / 1000, pixelsOf(image, image.displayWidth, image.displayHeight)];
  return [await eachFrame(decoder, frame), decoder.tracks.selectedTrack.repetitionCount === Infinity];
};

window.timesOfGif = async (data) => eachFrame(await decoderOf(data), (image) => image.duration / 1000);

window.pixelsOfPng = async (png) => {
  const image = new Image();
  image.src = "data:image/png;base64," + png;
  await image.decode();
  return pixelsOf(image, image.width, image.height);
};
