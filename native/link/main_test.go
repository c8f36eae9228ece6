package main

import (
	"os"
	"testing"
)

// asLink makes the test binary be ramet-link.
const asLink = "RAMET_LINK_TEST_BINARY_IS_LINK=1"

func TestMain(m *testing.M) {
	if os.Getenv("RAMET_LINK_TEST_BINARY_IS_LINK") == "1" && len(os.Args) > 1 && os.Args[1][0] != '-' {
		main()
	}
	os.Exit(m.Run())
}
