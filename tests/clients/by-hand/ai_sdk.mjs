// Vercel's AI SDK. Run `node ai_sdk.mjs http://127.0.0.1:8080` next to node_modules with ai,
// @ai-sdk/openai-compatible and zod.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateObject, generateText, streamText } from 'ai'
import { z } from 'zod'

const model = createOpenAICompatible({ name: 'beamgen', baseURL: `${process.argv[2]}/v1`, supportsStructuredOutputs: true })('single')
const prompt = 'Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?'
const turn = (role, content) => ({ role, content })
const calls = {
  generate: async () => (await generateText({ model, prompt, maxRetries: 0 })).text,
  stream: async () => {
    let text = ''
    for await (const part of streamText({ model, prompt, maxRetries: 0 }).textStream) text += part
    return text
  },
  stop: async () => (await generateText({ model, prompt, stopSequences: ['\n'], maxRetries: 0 })).text,
  turns: async () => (await generateText({ model, messages: [turn('user', prompt), turn('assistant', '42'), turn('user', prompt)], maxRetries: 0 })).text,
  object: async () => (await generateObject({ model, prompt, schema: z.object({ pens: z.number() }), maxRetries: 0 })).object,
}
for (const [name, call] of Object.entries(calls)) {
  try {
    console.log(name, JSON.stringify(await call()))
  } catch (error) {
    console.log(name, error.name, error.message.slice(0, 200))
  }
}
