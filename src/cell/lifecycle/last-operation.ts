/** The last call of one operation: a repeat of it finds what it did, or joins it. One that has failed is forgotten. */
export class LastCall<T> {
  #last: { key: string; result: Promise<T> } | undefined;

  /** The answer of the last call, if it bore this key. */
  repeated(key: string): Promise<T> | undefined {
    return this.#last?.key === key ? this.#last.result : undefined;
  }

  remember(key: string, result: Promise<T>): Promise<T> {
    const call = { key, result };
    this.#last = call;
    result.catch(() => {
      if (this.#last === call) this.#last = undefined;
    });
    return result;
  }

  /** Resolves when nothing of it is under way. */
  async settled(): Promise<void> {
    await this.#last?.result.catch(() => undefined);
  }
}
