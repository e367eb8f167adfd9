// What a FrameBuffer keeps between answers, and what it lets go of.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FrameBuffer } from '../../../src/cluster/frame-buffer.ts';

const largeBytes = 8 * 1024 * 1024;
const windowBytes = 512 * 1024;

test('memory that one large answer grew to is kept while others are used up as they come', () => {
  const memory = new FrameBuffer();
  memory.grow(memory.claim(windowBytes, largeBytes), windowBytes, largeBytes);
  const { buffer } = memory.claim(windowBytes, largeBytes);
  for (let answer = 0; answer < 100; answer++) {
    assert.equal(memory.claim(windowBytes, largeBytes).buffer, buffer, `answer ${answer}`);
  }
});

test('memory of large answers is let go of when only smaller ones have come for a while', () => {
  const memory = new FrameBuffer();
  memory.claim(largeBytes);
  for (let answer = 0; answer < 100; answer++) memory.claim(windowBytes);
  assert.ok(memory.sizeInBytes < 2 * windowBytes, `${memory.sizeInBytes} bytes are kept`);
});
