package hbase

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestGohbaseLogsForDebuggingOnly(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: false} {
		var out bytes.Buffer
		log := demoted(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})))
		log.With("client", 1).WithGroup("g").Error("error occured, closing region client", "err", "EOF")
		if got := strings.Contains(out.String(), "level=DEBUG"); got != want || strings.Contains(out.String(), "ERROR") {
			t.Errorf("at level %v it wrote %q", level, out.String())
		}
	}
}
