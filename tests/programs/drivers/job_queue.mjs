// @platformatic/job-queue on FileStorage: lines of JSON in, {"do": NAME, ...}, a line of JSON out for each.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

// Promise.withResolvers is what the library wants of a newer node.
Promise.withResolvers ??= function () {
  const one = {}
  one.promise = new Promise((resolve, reject) => Object.assign(one, { resolve, reject }))
  return one
}
const [spool, worker] = process.argv.slice(2)
const found = createRequire(pathToFileURL(process.env.JOB_QUEUE_HOME + '/package.json')).resolve('@platformatic/job-queue')
const { FileStorage, Queue, Reaper } = await import(pathToFileURL(found))
const say = (value) => process.stdout.write(JSON.stringify(value ?? null) + '\n')

const storage = new FileStorage({ basePath: spool })
const queue = new Queue({ storage, workerId: worker, maxRetries: 2, visibilityTimeout: Number(process.env.VISIBILITY ?? 30000) })
const seen = new Set()
const waiting = new Map()
function happened (what) {
  seen.add(what)
  waiting.get(what)?.()
}
const done = []
queue.on('completed', (id) => done.push(id))
for (const event of ['completed', 'failed', 'failing']) queue.on(event, (id) => happened(event + ' ' + id))

// What a job does stands in its payload: {"error": TEXT}, {"hang": true}, or {"result": ANY}, after {"delay": MS}
// unless QUICK is set.
async function run (job) {
  happened('begun ' + job.id)
  if (job.payload.delay && !process.env.QUICK) await new Promise((resolve) => setTimeout(resolve, job.payload.delay))
  if (job.payload.hang) await new Promise(() => {})
  if (job.payload.error) throw Object.assign(new Error(job.payload.error), { stack: 'Error: ' + job.payload.error })
  return job.payload.result
}

const acts = {
  // The ids of jobs that this worker finished, each as often as it did.
  finished: () => done,
  put: ({ id, payload }) => queue.enqueue(id, payload ?? {}),
  cancel: ({ id }) => queue.cancel(id),
  status: ({ id }) => queue.getStatus(id),
  result: ({ id }) => queue.getResult(id),
  stop: () => queue.stop(),
  work: () => queue.execute(run),
  // Answers when a job was begun, completed, failing or failed, which it may have been before.
  wait: ({ id, event }) => seen.has(event + ' ' + id) || new Promise((resolve) => waiting.set(event + ' ' + id, () => resolve(true))),
  // Two producers that put one id at once.
  twice: async ({ id }) => {
    const other = new FileStorage({ basePath: spool })
    await other.connect()
    const bytes = Buffer.from(JSON.stringify({ id, payload: {}, createdAt: Date.now(), attempts: 0, maxAttempts: 2 }))
    await other.enqueue(id + '-before', bytes, Date.now())
    const both = await Promise.all([storage.enqueue(id, bytes, Date.now()), other.enqueue(id, bytes, Date.now())])
    await other.disconnect()
    return both
  },
  reap: async () => { const reaper = new Reaper({ storage, visibilityTimeout: 10 }); await reaper.start() }
}

await queue.start()
say({ started: worker })
for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...args } = JSON.parse(line)
  say(await acts[name](args))
}
process.exit(0)
