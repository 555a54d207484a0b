package apply

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"salectl/internal/files"
	"salectl/planner"
)

// What is in the way of the manifest is told before a sale is closed.
func TestManifestInTheWay(t *testing.T) {
	w := newWorld(t)
	sold(w)
	cfg := w.config()
	cfg.Clock = clockOf(w)
	path := filepath.Join(w.folder, "export.ndjson")
	if err := os.WriteFile(files.ManifestPath(path), []byte("my notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := w.actual().Sale.Next()
	if _, err := Destroy(t.Context(), cfg, w.planDestroy(), path); !errors.Is(err, planner.ErrRefused) {
		t.Errorf("destroy: %v", err)
	}
	if w.actual().Sale.Next() != next {
		t.Error("the sale was closed")
	}
}
