// shapes N: each function N times.
#include <cstdlib>
#include <string>

#define KEEP __attribute__((noinline))

static volatile long sink;

namespace geometry {

template <typename T> struct Box {
    T side;
    KEEP T volume(T scale) const {
        sink += 1;
        return side * side * side * scale;
    }
};

class Shape {
public:
    explicit Shape(int corners);
    virtual ~Shape() = default;
    int area(int width, const char *label) const;
    int area(double factor) const;
    bool operator<(const Shape &other) const;
    int operator()(int x) const;

private:
    int corners_;
};

KEEP Shape::Shape(int corners) : corners_(corners) { sink += corners; }
KEEP int Shape::area(int width, const char *label) const { return corners_ * width + (label[0] != 0); }
KEEP int Shape::area(double factor) const { return static_cast<int>(corners_ * factor); }
KEEP bool Shape::operator<(const Shape &other) const { return corners_ < other.corners_; }
KEEP int Shape::operator()(int x) const { return corners_ + x; }

template <typename T> KEEP T max_of(T a, T b) {
    sink += 1;
    return a < b ? b : a;
}

} // namespace geometry

template struct geometry::Box<int>;
template struct geometry::Box<long>;

int main(int count, char **words) {
    using namespace geometry;
    int n = count > 1 ? std::atoi(words[1]) : 10;
    long sum = 0;
    for (int i = 0; i < n; i++) {
        Shape shape(i), other(i + 1);
        sum += shape.area(i, "label") + shape.area(0.5) + (shape < other) + shape(i);
        sum += max_of<int>(i, 3) + max_of<long>(i, 4L);
        sum += Box<int>{2}.volume(i) + Box<long>{3}.volume(i);
    }
    sink += sum;
    return 0;
}
