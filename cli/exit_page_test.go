package cli

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"salectl/cli/lock"
)

// exitCodes has all codes of exit.go by their names.
var exitCodes = map[string]int{
	"exitOK": exitOK, "exitError": exitError, "exitChanges": exitChanges, "exitRefused": exitRefused,
	"exitUsage": exitUsage, "exitStale": exitStale, "exitPartly": exitPartly, "exitTimeout": exitTimeout,
	"exitDown": exitDown, "exitDegraded": exitDegraded, "exitSoldOut": exitSoldOut, "exitLimit": exitLimit, "exitNotOpen": exitNotOpen, "exitThreshold": exitThreshold, "exitNotRunnable": lock.ExitNotRunnable,
	"exitNotFound": lock.ExitNotFound, "exitInterrupted": exitInterrupted, "exitSignal": lock.ExitSignal,
}

// The page of exit codes has a line for each code and for no other, and ranks them as
// the program does.
func TestExitCodesPage(t *testing.T) {
	source, err := os.ReadFile("exit.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^\t(exit[A-Z]\w*) += `).FindAllStringSubmatch(string(source), -1) {
		if _, known := exitCodes[found[1]]; !known {
			t.Errorf("exitCodes lacks %s", found[1])
		}
	}
	page, err := os.ReadFile("../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	var told []int
	for _, line := range regexp.MustCompile(`(?m)^\| (\d+) \| \S`).FindAllStringSubmatch(string(page), -1) {
		code, _ := strconv.Atoi(line[1])
		told = append(told, code)
	}
	if want := slices.Sorted(maps.Values(exitCodes)); !slices.Equal(told, want) {
		t.Errorf("docs/exit-codes.md has the codes %v, and the program %v", told, want)
	}
	if order := strings.Trim(strings.ReplaceAll(fmt.Sprint(worst), " ", ", "), "[]"); !strings.Contains(string(page), "in this order: "+order+".") {
		t.Errorf("docs/exit-codes.md does not have the order %s", order)
	}
}
