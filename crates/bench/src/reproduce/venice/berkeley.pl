# A BerkeleyDB with all of its records in its cache, as the paper loads it: transactions of five
# random queries, four gets and a put. Perl's DB_File is BerkeleyDB itself.
use strict;
use warnings;
use DB_File;
use Digest::MD5;
use Fcntl;
use Time::HiRes qw(time);

my ($file, $records, $transactions) = @ARGV;
my $bytes = 1000;
my $random = 2016;

sub resident {
    open my $status, '<', '/proc/self/status' or return 0;
    while (<$status>) { return $1 * 1024 if /^RssAnon:\s+(\d+)/ }
    return 0;
}

sub below {
    $random = ($random * 1103515245 + 12345) & 0x7fffffff;
    return ($random >> 8) % $_[0];
}

sub value { return substr(sprintf('%09d-%09d ', @_) x ($bytes / 20), 0, $bytes) }

my $before = resident();
my $tree = DB_File::BTREEINFO->new;
$tree->{cachesize} = 2 * $records * ($bytes + 100) + (8 << 20);
my %db;
my $db = tie %db, 'DB_File', $file, O_RDWR | O_CREAT, 0600, $tree or die "BerkeleyDB: $!\n";
$db->put(sprintf('k%09d', $_), value($_, 0)) for 0 .. $records - 1;

my $digest = Digest::MD5->new;
my $start = time;
for my $transaction (1 .. $transactions) {
    for (1 .. 4) {
        my $value;
        my $at = below($records);
        $db->get(sprintf('k%09d', $at), $value) == 0 or die "record $at is not there\n";
        substr($value, 0, 9) == $at or die "record $at is another\n";
        $digest->add($value);
    }
    my $at = below($records);
    $db->put(sprintf('k%09d', $at), value($at, $transaction));
}
my $seconds = time - $start;
printf "{\"seconds\":%.6f,\"result\":\"%s\",\"bytes\":%d}\n", $seconds, $digest->hexdigest,
    resident() - $before;
