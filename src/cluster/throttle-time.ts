// For how long an answer says that its broker throttles who asked. Refuses to know which API
// answers.

/** Nearly all answers have it: how long we shall wait because we are over a quota of the broker. */
export function throttleTimeOf(answer: unknown): number {
  if (typeof answer !== 'object' || answer === null || !('throttleTimeMs' in answer)) return 0;
  return typeof answer.throttleTimeMs === 'number' ? answer.throttleTimeMs : 0;
}
