package access

import (
	"context"
	"log/slog"
	"time"

	"salectl/backends/clock"
)

// Reloaded is read from files that may change while a server serves.
type Reloaded interface {
	// Reload reads the files again. If they are not usable, it returns why, and what was read before
	// remains in force.
	Reload() (changed bool, err error)
	String() string // names the files
}

// reloadEvery is how often files are read again. They are small, and their modification times may be
// the same after a change.
const reloadEvery = time.Second

// Watch reads files again every second until ctx ends. It logs changes, errors, and certificates that
// expire.
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

// warn logs the warning of certificates unless it is the last one, and returns it.
func warn(log *slog.Logger, c *Certificates, now time.Time, last string) string {
	warning := c.Warning(now)
	if warning != "" && warning != last {
		log.Warn(warning, "file", c.files.Cert, "remedy", "replace the certificate and its key; they are read again without a restart")
	}
	return warning
}

// reloadFile reads files again, logs an error unless it is the last one, and returns it.
func reloadFile(log *slog.Logger, r Reloaded, last string) string {
	changed, err := r.Reload()
	switch {
	case err != nil && err.Error() != last:
		log.Error("a file is not fit for use as it is now; what was read before remains in force", "file", r.String(), "why", err)
		return err.Error()
	case err != nil:
		return last
	case changed:
		log.Info("a file has changed and was read again", "file", r.String())
	}
	return ""
}
