package dnsrelay

import (
	"testing"
	"time"
)

func TestQuestionsWaitWhenTheBudgetIsSpent(t *testing.T) {
	var b budget
	now := time.Unix(0, 0)
	for i := range questionsAtOnce {
		if pause := b.take(now); pause != 0 {
			t.Fatalf("question %d waits %v", i, pause)
		}
	}
	for i := 1; i <= questionsPerSecond; i++ {
		if pause, want := b.take(now), time.Duration(i)*perQuestion; pause != want {
			t.Fatalf("question %d after the first ones waits %v, want %v", i, pause, want)
		}
	}
	now = now.Add(time.Second)
	if pause := b.take(now); pause != perQuestion {
		t.Errorf("after a second, a question waits %v", pause)
	}
	now = now.Add(time.Hour)
	for range questionsAtOnce {
		if pause := b.take(now); pause != 0 {
			t.Fatalf("after an hour, a question waits %v", pause)
		}
	}
	if pause := b.take(now); pause != perQuestion {
		t.Errorf("the budget holds more than %d questions", questionsAtOnce)
	}
}
