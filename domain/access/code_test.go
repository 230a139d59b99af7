package access_test

import (
	"testing"

	"github.com/penstock/penstock/domain/access"
	"github.com/penstock/penstock/domain/failure"
)

// D51, §3 rows 19 and 20: every code is one of the table of refusals, of the stage after authentication.
func TestEveryCodeIsInTheTableOfRefusals(t *testing.T) {
	for code, status := range map[access.Code]int{access.IPDenied: 403, access.OutsideHours: 403} {
		if r := failure.New(string(code), ""); r.Code != string(code) || r.Status != status || r.Stage != failure.StageAuthFilter {
			t.Errorf("%s: %+v", code, r)
		}
	}
}
