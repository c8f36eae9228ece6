package confine

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// With RAMET_CONFINE_COST, prints the milliseconds that Process takes in a new process, for the benchmark "hardening".
func TestMain(m *testing.M) {
	if os.Getenv("RAMET_CONFINE_COST") == "" {
		os.Exit(m.Run())
	}
	start := time.Now()
	if err := Process(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(float64(time.Since(start).Microseconds()) / 1000)
	os.Exit(0)
}
