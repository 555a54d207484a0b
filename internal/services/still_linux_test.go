package services

import (
	"testing"

	"salectl/internal/wait"
)

func TestPauseReturnsWhenAllStandsStill(t *testing.T) {
	r, err := StartRedis(t.Context(), RedisOptions{})
	Require(t, err)
	t.Cleanup(r.Stop)
	pid := r.running().process.Pid
	if still(pid) {
		t.Fatal("it stands still before anybody paused it")
	}
	for range 50 {
		if err := r.Pause(); err != nil || !still(pid) {
			t.Fatalf("paused: %v, still: %t", err, still(pid))
		}
		if err := r.Continue(); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the server to run again", func() bool { return !still(pid) })
	}
}
