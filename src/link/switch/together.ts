// Questions that come while one is being answered are asked together, next. Owns who waits;
// refuses to know what is asked. Invariants: what answers a question has begun after the question
// came; a question that comes alone does not wait; an error is for those who asked together only.

interface Waiting<Question, Answer> {
  readonly question: Question;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

export class Together<Question, Answer> {
  readonly #work: (questions: readonly Question[]) => Promise<(question: Question) => Answer>;
  readonly #questionsMax: number;
  #waiting: Waiting<Question, Answer>[] = [];
  #isBusy = false;

  constructor(
    work: (questions: readonly Question[]) => Promise<(question: Question) => Answer>,
    { questionsMax }: { readonly questionsMax: number },
  ) {
    this.#work = work;
    this.#questionsMax = questionsMax;
  }

  ask(question: Question): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ question, resolve, reject });
      if (!this.#isBusy) void this.#run();
    });
  }

  /** Does not reject. */
  async #run(): Promise<void> {
    this.#isBusy = true;
    while (this.#waiting.length > 0) {
      const taken = this.#waiting.splice(0, this.#questionsMax);
      try {
        const answerTo = await this.#work(taken.map(({ question }) => question));
        for (const { question, resolve } of taken) resolve(answerTo(question));
      } catch (error) {
        for (const { reject } of taken) reject(error);
      }
    }
    this.#isBusy = false;
  }
}
