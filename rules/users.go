package rules

import "context"

// Users provides the attributes of users. All methods are safe for concurrent use.
type Users interface {
	// Lookup returns the attributes of each id, in the order of ids, which may contain duplicates.
	// A user without an entry is Schema.Unknown, and one whose values do not fit the schema is
	// Schema.Unreadable; neither is an error. An error leaves all of them unknown: the caller
	// refuses their claims, or tries again. Implementations do not retry beyond ctx. Without ids,
	// Lookup only reads what the source keeps in memory as a whole.
	Lookup(ctx context.Context, ids []string) ([]Attributes, error)
}

// UnknownUsers returns a Users without an entry for any user.
func UnknownUsers(s *Schema) Users { return newFile(s) }

// SourceError reports that the source does not contain the users as declared. A retry does not help.
type SourceError struct {
	What   string // a clause without a period
	Remedy string // in sentences
}

func (e *SourceError) Error() string { return e.What }
