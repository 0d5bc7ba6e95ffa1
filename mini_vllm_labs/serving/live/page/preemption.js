// "Show me a preemption": lets a crowd in until a request loses its blocks, then goes slowly through those steps.

const CROWD = 50, PATIENCE = 30000, LOOK = 200, BEFORE = 2, AFTER = 3, SLOW = 1800, PACE = 20;

const wait = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
let isShowing = false;

export async function showPreemption(find, engine, controls) {
  if (isShowing) return;
  isShowing = true;
  find("show-me").disabled = true;
  try {
    if (await happens(engine, controls)) await play(engine, controls);
    else controls.onError({ message: `No preemption in ${PATIENCE / 1000} seconds: this pool of ${engine.facts.num_blocks.toLocaleString("en")} blocks is large. Start the server with --num-gpu-blocks 128.` });
  } finally {
    find("show-me").disabled = false;
    isShowing = false;
  }
}

const isKept = ({ preempted, oldest }) => preempted >= 0 && preempted - BEFORE >= oldest;

// Waits for one, unless the kept steps have one; the crowd leaves again. Slow steps make the requests overlap.
async function happens(engine, controls) {
  if (isKept(engine)) return true;
  if (controls.isPaused) await controls.toggle();
  const { requests_per_second: before, steps_per_second: pace } = controls.status, end = performance.now() + PATIENCE;
  await controls.setPace(Math.min(pace || PACE, PACE));
  await controls.setCrowd(CROWD);
  while (!isKept(engine) && performance.now() < end) await wait(LOOK);
  await controls.setCrowd(before);
  if (isKept(engine)) await controls.toggle(); // held, so that the steps are kept
  await controls.setNext(pace);
  return isKept(engine);
}

// The engine is held meanwhile; the visitor may go on from there.
async function play(engine, controls) {
  const { preempted } = engine;
  if (!controls.isPaused) await controls.toggle();
  for (let step = preempted - BEFORE; step <= Math.min(preempted + AFTER, engine.newest); step += 1) {
    engine.go(step);
    await wait(SLOW);
  }
  engine.go(preempted);
}
