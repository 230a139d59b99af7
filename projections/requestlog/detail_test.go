package requestlog_test

import (
	"testing"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/requestlog"
)

// Rows of a version are read for as long as it lives: when this text changes, the version must rise. Numbers of words among it.
func TestADetailOfThisVersionIsWrittenInThisForm(t *testing.T) {
	const version = 6
	const want = `{"u":"ann","g":"team","m":0,"p":2,"d":7,"c":11,"s":true,"n":"s-1","k":"openai-python/2.1","ki":"c-1","um":"house","af":50,"us":39,` +
		`"f":250499,"ui":"up-2","a":[{"u":"main","a":"main-1","c":31,"s":500,"d":1234500,"x":[7],"m":30,"w":50,"bc":true,"bt":49,"bv":"p6","bo":44,"bi":true},` +
		`{"a":"spare-1","t":2000000,"c":21,"s":200,"d":900000,"f":250499,"x":[100,50,20,10,3,4,11,12,13,14,15,16,17],"m":300,"w":200,"bt":48,"bv":"p7","bo":43}],` +
		`"e":[{"upstream":"relay","reason":"circuit_open"}]}`
	row := tell(t, []events.Fact{admitted, first}, []events.Fact{failed}, []events.Fact{second}, []events.Fact{settled})
	if have := row[len(row)-1].Text(); have != want || (requestlog.Projection{}).Version() != version {
		t.Errorf("have %s", have)
	}
}
