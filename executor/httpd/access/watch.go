package access

import (
	"context"
	"log/slog"
	"time"

	"salectl/backends/clock"
)

// Reloaded is a value read from files that may change while a server runs.
type Reloaded interface {
	// Reload reads the files again. If they are unusable it returns an error, and the previous
	// content remains in force.
	Reload() (changed bool, err error)
	String() string // returns the names of the files
}

// reloadEvery is the interval of reloads. Files are small, and a change may leave their
// modification times equal.
const reloadEvery = time.Second

// Watch reloads files every second until ctx ends. It logs changes, errors, and expiring certificates.
func Watch(ctx context.Context, log *slog.Logger, now clock.Clock, all ...Reloaded) {
	logged, warned := make([]string, len(all)), ""
	for {
		for i, r := range all {
			logged[i] = reloadFile(log, r, logged[i])
			if c, ok := r.(*Certificates); ok {
				warned = warn(log, c, now().Wall, warned)
			}
		}
		select {
		case <-time.After(reloadEvery):
		case <-ctx.Done():
			return
		}
	}
}

// warn logs a certificate warning unless it equals the last one, and returns it.
func warn(log *slog.Logger, c *Certificates, now time.Time, last string) string {
	warning := c.Warning(now)
	if warning != "" && warning != last {
		log.Warn(warning, "file", c.files.Cert, "remedy", "replace the certificate and its key; they are read again without a restart")
	}
	return warning
}

// reloadFile reloads files, logs an error unless it equals the last one, and returns it.
func reloadFile(log *slog.Logger, r Reloaded, last string) string {
	changed, err := r.Reload()
	switch {
	case err != nil && err.Error() != last:
		log.Error("a file is unusable; its earlier content stays in use", "file", r.String(), "why", err)
		return err.Error()
	case err != nil:
		return last
	case changed:
		log.Info("a file has changed and was read again", "file", r.String())
	}
	return ""
}
