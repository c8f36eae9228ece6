// Package awake measures the time in which the sandbox runs. gVisor adds the time of a pause, and the age of a snapshot, to its clocks,
// so that all timers expire at once when a sandbox continues.
package awake

import (
	"context"
	"time"
)

const (
	// A time is waited for in steps. Of a step that took much longer, only its own length counts: the sandbox was paused.
	longestStep  = 5 * time.Second
	shortestStep = 100 * time.Millisecond
	// A step can be this late on a busy machine.
	lateness = time.Second
)

// AfterFunc calls f in a goroutine of its own after this time, unless it is stopped before.
func AfterFunc(after time.Duration, f func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		if passed(ctx, after) {
			f()
		}
	}()
	return cancel
}

// WithTimeout returns a context that ends after this time, with the cause context.DeadlineExceeded.
func WithTimeout(parent context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := AfterFunc(after, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

func passed(ctx context.Context, left time.Duration) bool {
	for left > 0 {
		step := min(left, max(left/12, shortestStep), longestStep)
		began := time.Now()
		select {
		case <-ctx.Done():
			return false
		case <-time.After(step):
		}
		took := time.Since(began)
		if took > step+lateness {
			took = step
		}
		left -= took
	}
	return true
}
